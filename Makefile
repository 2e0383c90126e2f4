# The front door. Paths are relative and quoted, because make cannot hold a space in a target's name
# and the clone may stand in a directory that has one.

PYTHON ?= python3
ARGS ?=
PROGRAMS ?= 10000
# Without subshells; with them; and those that send clicks back to where the last push came from.
KERNELS ?= 6.31.0 7.3.0 7.4.0
# The oldest JupyterLab with the Notebook that goes with it, and the newest of each minor version before this one.
LABS ?= 4.4.0+7.4.0 4.4.10+7.4.7 4.5.11+7.5.8
UPSTREAM ?=

VENV_PYTHON = .venv/bin/python
# npm's scripts look for jupyter-builder on PATH.
WITH_VENV = PATH="$$PWD/.venv/bin:$$PATH"
LAB_SOURCES = $(wildcard labextension/src/*.ts labextension/src/*/*.ts* labextension/src/*/*/*.ts* labextension/style/* \
	labextension/style/*/* labextension/schema/*.json labextension/*.mjs) \
	labextension/tsconfig.json labextension/install.json
LAB_BUILT = xla_notebook/labextension/package.json
# What the installation depends on; its checksum is the stamp, so that a new time stamp alone reinstalls nothing.
INSTALL_SUM = cat pyproject.toml package.json | sha256sum

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo lab test test-kernels test-labs screenshots fuzz peer bench protocol check build docs clean

help: ## list these targets
	@echo 'make TARGET, where TARGET is one of'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1\t\2/p' Makefile

setup: .venv/installed ## make the environment in .venv (once: about 7 GB, about 3 minutes)

demo: setup ## run the quickstart notebook headless, print its report, keep an HTML copy in build/
	@$(VENV_PYTHON) examples/run.py examples/01_quickstart.ipynb build
	@echo 'To open the notebook in JupyterLab: make lab'

lab: setup ## start JupyterLab in examples/ (ARGS="..." adds options)
	@cd examples && exec ../$(VENV_PYTHON) -m jupyterlab $$([ "$$(id -u)" != 0 ] || echo --allow-root) $(ARGS)

test: setup .venv/browser ## run all tests (ARGS="tests/unit -k name" picks some)
	@[ -n "$(ARGS)" ] || $(WITH_VENV) npm run --silent test
	@$(VENV_PYTHON) -m pytest $(ARGS)

test-kernels: setup ## run the tests of the live inspector with older and newer kernels, too
	@for version in $(KERNELS); do \
		echo "ipykernel $$version" && \
		$(VENV_PYTHON) -m pip install --quiet --no-deps --upgrade --target "build/kernels/$$version" "ipykernel==$$version" && \
		PYTHONPATH="$$PWD/build/kernels/$$version" $(VENV_PYTHON) -m pytest tests/kernel/test_live.py $(ARGS) || exit 1; \
	done

test-labs: setup .venv/browser ## run the browser tests with older versions of JupyterLab and Notebook, too
	@for pair in $(LABS); do \
		lab="$${pair%+*}" notebook="$${pair#*+}" root="$$PWD/build/labs/$$pair" && \
		echo "JupyterLab $$lab, Notebook $$notebook" && \
		$(VENV_PYTHON) -m pip install --quiet --no-deps --upgrade --target "$$root" "jupyterlab==$$lab" "notebook==$$notebook" && \
		PYTHONPATH="$$root" JUPYTERLAB_DIR="$$root/share/jupyter/lab" JUPYTER_PATH="$$root/share/jupyter" \
			$(VENV_PYTHON) -m pytest tests/ui $(ARGS) || exit 1; \
	done

fuzz: setup ## compare 10,000 generated programs with eager mode, about an hour (PROGRAMS=N for another number)
	@XLA_NOTEBOOK_FUZZ=$(PROGRAMS) $(VENV_PYTHON) -m pytest tests/hazards/test_differential.py $(ARGS)

peer: setup ## run torch_xla's own Dynamo tests (UPSTREAM=DIR: an export of its test/ and examples/)
	@[ -n "$(UPSTREAM)" ] || { $(VENV_PYTHON) tests/peer/run.py --help; exit 2; }
	@$(VENV_PYTHON) tests/peer/run.py "$(UPSTREAM)" $(ARGS)

screenshots: setup .venv/browser ## make the pictures of the README anew, in docs/
	@$(VENV_PYTHON) docs/screenshots.py

bench: setup ## measure side by side with torch_xla's own backend (ARGS="--quick --json FILE", or names of questions)
	@$(VENV_PYTHON) -m benchmarks $(ARGS)

# No rebuild first: what uses a new message builds only with its new types.
protocol: ## write the JSON Schema and the TypeScript types of the messages anew
	@[ -e .venv/installed ] || $(MAKE) setup
	@$(WITH_VENV) npm run --silent protocol

check: setup ## lint and types: ruff, mypy --strict, tsc, eslint
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m mypy
	@$(WITH_VENV) npm run --silent check

build: setup ## build the JupyterLab extension and the wheel, into build/dist
	@$(VENV_PYTHON) -m pip wheel --quiet --no-deps --wheel-dir build/dist .
	@ls build/dist/*.whl

docs: setup ## build the documentation into build/docs; a warning is an error
	@$(VENV_PYTHON) -m sphinx -W --keep-going -q -b html docs build/docs
	@echo 'build/docs/index.html'

clean: ## remove what was built (keeps .venv and node_modules)
	rm -rf build labextension/lib xla_notebook/labextension xla_notebook/static .mypy_cache .ruff_cache .pytest_cache .hypothesis

# pip is what venv makes last: half an environment is made anew.
.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 14))' || { \
		echo 'Python 3.10 to 3.13 is needed, and "$(PYTHON)" is not one. Name another: make setup PYTHON=python3.12'; exit 1; }
	@echo 'Making the environment in .venv: about 7 GB (torch with its GPU libraries), about 3 minutes, once.'
	@$(PYTHON) -m venv --clear .venv || { rm -rf .venv; \
		echo 'The environment could not be made. On Debian and Ubuntu: apt-get install python3-venv'; exit 1; }

node_modules/.package-lock.json: package.json package-lock.json | .venv/bin/pip
	@node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null \
		&& command -v npm >/dev/null || { \
		echo 'Node 20.19 or newer with npm is needed to build the JupyterLab side (the wheel itself needs none).'; exit 1; }
	@echo 'Installing the tools that build the JupyterLab extension into node_modules: about 0.5 GB, about 1 minute, once.'
	@npm ci --loglevel=error
	@touch $@

# The tests of the page need Chromium. Whoever may not install it is told how to name one.
.venv/browser: .venv/installed
	@$(VENV_PYTHON) -c 'import sys; sys.path.insert(0, "tests"); from ui.lab import browser_path; browser_path()' 2>/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo 'Installing Chromium for the tests of the page: about 0.4 GB, about 2 minutes, once.' && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium >/dev/null; } || { \
		echo 'The tests of the page need Chromium. Install it (Debian: apt-get install chromium) or name one in XLA_NOTEBOOK_BROWSER.'; exit 1; }
	@touch $@

# Built before the package is installed, because the package carries it.
$(LAB_BUILT): node_modules/.package-lock.json $(LAB_SOURCES)
	@echo 'Building the JupyterLab extension.'
	@$(VENV_PYTHON) -m pip install --quiet 'jupyter_builder>=1.3,<2'
	@$(WITH_VENV) npm run --silent build
	@touch $@

.venv/installed: pyproject.toml package.json $(LAB_BUILT) | .venv/bin/pip
	@if [ "$$($(INSTALL_SUM))" != "$$(cat $@ 2>/dev/null)" ]; then \
		echo 'Installing xla_notebook and what it needs into .venv.' && \
		HATCH_JUPYTER_BUILDER_SKIP_NPM=1 $(VENV_PYTHON) -m pip install --quiet --editable '.[dev,docs,examples]' && \
		.venv/bin/jupyter-builder develop . --overwrite --log-level=WARN; \
	fi
	@$(INSTALL_SUM) > $@

"""Sphinx's settings. `make docs` builds the pages into build/docs; a warning is an error."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "xla_notebook"
author = "The xla_notebook authors"
copyright = author
release = version = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "session_reference"]
html_theme = "furo"
html_title = "xla_notebook"
exclude_patterns = ["extensions"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
# Docstrings set names of parameters and values in single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# By its name, not by what it stands for, which is recursive.
autodoc_type_aliases = {"Plain": "Plain"}
python_maximum_signature_line_length = 100

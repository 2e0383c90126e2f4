"""Loading, unloading, and what the magics print."""

from __future__ import annotations

import pytest
from kernel_client import Kernel

pytestmark = pytest.mark.kernel

HOOKS = """
ip = get_ipython()
def state():
    ours = [f for name in ip.events.callbacks for f in ip.events.callbacks[name] if "xla_notebook" in f.__module__]
    magics = [n for kind in ip.magics_manager.magics.values() for n in kind if n.startswith("xla_")]
    transformers = [f for f in ip.input_transformers_post if "xla_notebook" in type(f.__self__).__module__]
    import builtins, logging
    filters = logging.getLogger("torch._dynamo.convert_frame").filters
    target = "xla_notebook" in ip.kernel.comm_manager.targets
    runtime = hasattr(builtins, "__xla_notebook__"), "reset" in vars(ip)
    return len(ours), sorted(magics), len(transformers), runtime, len(filters), target
"""
LOADED = (
    4,
    "xla_buffers xla_clear xla_compile xla_compile xla_events xla_explain xla_graphs xla_inspect xla_warmup".split(),
    1,
    (True, True),
    1,
    True,
)
UNLOADED = (0, [], 0, (False, False), 0, False)


def test_loading_prints_one_line_and_creates_no_client(bare_kernel: Kernel) -> None:
    shown = bare_kernel.check("%load_ext xla_notebook")
    assert shown.stdout.count("\n") == 1
    assert shown.stdout.startswith("xla_notebook ")
    assert "device" in shown.stdout
    assert "torch_xla 2.9" in shown.stdout
    assert "%xla_inspect opens the inspector" in shown.stdout
    assert shown.stderr == ""
    assert bare_kernel.value("__import__('torch_xla')._XLAC._xla_runtime_is_initialized()") is False


def test_loading_again_reloading_and_unloading_leave_one_set_of_hooks_or_none(bare_kernel: Kernel) -> None:
    bare_kernel.check("%load_ext xla_notebook")
    bare_kernel.check(HOOKS)
    assert bare_kernel.value("state()") == LOADED
    for _ in range(3):
        bare_kernel.check("%reload_ext xla_notebook")
    assert bare_kernel.value("state()") == LOADED
    bare_kernel.check("%load_ext xla_notebook")
    assert bare_kernel.value("state()") == LOADED
    bare_kernel.check("%unload_ext xla_notebook")
    assert bare_kernel.value("state()") == UNLOADED
    bare_kernel.check("%load_ext xla_notebook")
    assert bare_kernel.value("state()") == LOADED


def test_a_failing_hook_switches_itself_off_with_one_notice(bare_kernel: Kernel) -> None:
    bare_kernel.check("%load_ext xla_notebook")
    bare_kernel.check("from xla_notebook import session\nbegin = type(session.current()).begin_cell")
    bare_kernel.check(
        "def broken(*args):\n    raise LookupError('broken')\ntype(session.current()).begin_cell = broken"
    )
    first = bare_kernel.check("print('ran')")
    assert first.stdout.count("LookupError: broken") == 1
    assert "%reload_ext xla_notebook" in first.stdout
    assert first.stdout.endswith("ran\n")
    assert bare_kernel.check("print('ran')").stdout == "ran\n"
    bare_kernel.check("type(session.current()).begin_cell = begin\n%reload_ext xla_notebook")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--warmup compile", "no option '--warmup'; did you mean --warm-up?"),
        ("--warm-up compiled", "--warm-up 'compiled' is unknown; did you mean compile?"),
        ("--fullgraf", "did you mean --fullgraph?"),
        ("--name", "--name needs a value, as in --name train"),
        ("--donate a,1b", "--donate takes names of variables, and '1b' is not one"),
        ("x", "no option 'x'; there are --no-run"),
        ("--name 'a", "No closing quotation"),
    ],
)
def test_a_wrong_option_gives_one_line_and_runs_nothing(kernel: Kernel, line: str, says: str) -> None:
    shown = kernel.run(f"%%xla_compile {line}\nprint('ran')")
    assert "ran" not in shown.stdout
    assert says in shown.stderr
    assert shown.stderr.count("\n") == 1
    assert shown.error is not None or "UsageError" in shown.stderr


def test_the_magic_below_another_line_says_where_it_belongs(kernel: Kernel) -> None:
    shown = kernel.run("import math\n%%xla_compile\nx = 1")
    assert "must be the first line of the cell" in shown.stderr


def test_help_lists_the_options(kernel: Kernel) -> None:
    source = kernel.value("get_ipython().find_cell_magic('xla_compile').__doc__")
    for option in ("--name", "--warm-up", "--no-run", "--dynamic", "--fullgraph", "--donate", "--quiet"):
        assert option in source


def test_the_line_after_a_cell_counts_graphs_and_quiet_leaves_it_out(kernel: Kernel) -> None:
    kernel.check("x = torch.ones(2, 3).to(dev)")
    first = kernel.check("%%xla_compile\ny = (x * 3).sum()")
    assert first.stdout.startswith("1 graph compiled in ")
    assert kernel.check("%%xla_compile\ny = (x * 3).sum()").stdout == "1 graph reused\n"
    assert kernel.check("%%xla_compile --quiet\ny = (x * 5).sum()").stdout == ""
    assert kernel.check("%%xla_compile\nprint(1)").stdout == "1\n"


def test_a_line_magic_evaluates_one_expression_here_and_in_functions(kernel: Kernel) -> None:
    kernel.check("x = torch.ones(2, 3).to(dev)")
    assert kernel.check("%xla_compile (x * 2).sum().item()").result == "12.0"
    kernel.check(
        "def inside(t):\n    scale = 4\n    return get_ipython().run_line_magic('xla_compile', '(t * scale).sum()')"
    )
    kernel.check("result = %xla_compile x + 1\ninner = inside(x)")
    assert kernel.value("result.sum().item(), inner.item()") == (12.0, 24.0)
    assert "takes one expression" in kernel.run("%xla_compile a = 1").stderr


def test_graphs_are_listed_as_text_and_html(kernel: Kernel) -> None:
    kernel.check("weights = torch.ones(7, 11).to(dev)")
    kernel.check("%%xla_compile --name <b>scaled</b>\nscaled = weights * 3 + 1")
    data = kernel.check("%xla_graphs").outputs[-1]["data"]
    for text in (data["text/plain"], data["text/html"]):
        assert "float32[7,11]" in text
        assert "inference" in text
    assert "<b>scaled</b>" in data["text/plain"]
    assert "<b>" not in data["text/html"]
    assert "&lt;b&gt;scaled&lt;/b&gt;" in data["text/html"]
    assert data["text/html"].count('<th scope="col"') == 9


def test_listing_graphs_touches_no_device(kernel: Kernel) -> None:
    kernel.check("x = torch.ones(2, 3).to(dev)\nlazy = x * 7")
    before = kernel.value("counts()")
    kernel.check("%xla_graphs")
    assert kernel.value("counts()") == before
    assert "lazy" in kernel.value("pending()")

"""See what PyTorch/XLA compiles, keeps and donates, from inside a notebook.

``%load_ext xla_notebook`` registers the magics. Importing the package imports neither torch nor IPython,
so that ``torch.compile(fn, backend="xla_notebook")`` and the command line stay cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from xla_notebook.notebook.decorator import compile, compiling
    from xla_notebook.notebook.widget import Inspector
    from xla_notebook.session import Session

    __version__: str

    def session() -> Session: ...


__all__ = [
    "Inspector",
    "__version__",
    "compile",
    "compiling",
    "load_ipython_extension",
    "session",
    "unload_ipython_extension",
]


def load_ipython_extension(ip: InteractiveShell) -> None:
    """Register the magics (called by ``%load_ext xla_notebook``).

    Where torch or torch_xla is missing or the two clash, nothing is registered and the reason is printed
    with what to do about it, in the words of ``python -m xla_notebook doctor``.
    """
    from xla_notebook.notebook import doctor

    findings = doctor.check()
    if doctor.main_job_works(findings):
        from xla_notebook.notebook import extension

        extension.load(ip)
        return
    print("xla_notebook is not loaded, because cells cannot be compiled here:")
    print(doctor.render(finding for finding in findings if finding.level is doctor.Level.WRONG))


def unload_ipython_extension(ip: InteractiveShell) -> None:
    """Take back what ``load_ipython_extension`` registered (called by ``%unload_ext xla_notebook``)."""
    import sys

    # Absent where loading stopped at a missing or clashing torch_xla: then there is nothing to take back.
    extension = sys.modules.get("xla_notebook.notebook.extension")
    if extension is not None:
        extension.unload(ip)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Tell Jupyter where the prebuilt JupyterLab extension is, for editable installs."""
    return [{"src": "labextension", "dest": "xla-notebook"}]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("xla_notebook")
    if name == "session":
        import xla_notebook.session

        return xla_notebook.session
    if name in ("compile", "compiling"):
        from xla_notebook.notebook import decorator

        return getattr(decorator, name)
    if name == "Inspector":
        from xla_notebook.notebook.widget import Inspector

        return Inspector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

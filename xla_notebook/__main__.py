"""The command line: ``python -m xla_notebook doctor`` and ``python -m xla_notebook show FILE``."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from xla_notebook.notebook import doctor


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status: 1 if the main job cannot run, or the file cannot be shown."""
    parser = argparse.ArgumentParser(prog="python -m xla_notebook", description="Tools of xla_notebook.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="print versions and devices, and what to do about what is wrong")
    show = commands.add_parser("show", help="print an exported session, or write it as an HTML page")
    show.add_argument("file", type=Path, help="what xla_notebook.session().export(FILE) wrote")
    show.add_argument("--html", type=Path, metavar="PAGE", help="write a self-contained HTML page instead")
    show.add_argument("--events", type=int, default=200, metavar="N", help="print the last N events (default 200)")
    chosen = parser.parse_args(arguments)
    return _doctor() if chosen.command == "doctor" else _show(chosen.file, chosen.html, chosen.events)


def _show(file: Path, page: Path | None, events: int) -> int:
    # Here, because the doctor must run where rich is missing.
    from xla_notebook.notebook import show
    from xla_notebook.session import export

    try:
        exported = export.read(file)
        if page is not None:
            page.write_text(show.page(exported), encoding="utf-8")
    except (OSError, export.ExportError) as error:
        print(error, file=sys.stderr)
        return 1
    if page is None:
        width = shutil.get_terminal_size((120, 50)).columns
        sys.stdout.write(show.text(exported, width, events))
    return 0


def _doctor() -> int:
    findings = doctor.check()
    print(doctor.render(findings))
    if doctor.main_job_works(findings):
        print("\nReady: %load_ext xla_notebook, then %%xla_compile.")
        return 0
    print("\nCells cannot be compiled until what is marked WRONG is mended.")
    return 1


if __name__ == "__main__":
    sys.exit(main())

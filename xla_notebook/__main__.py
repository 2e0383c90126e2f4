"""The command line: ``python -m xla_notebook doctor``."""

import argparse
import sys
from collections.abc import Sequence

from xla_notebook.notebook import doctor


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status (1 if the main job cannot run)."""
    parser = argparse.ArgumentParser(prog="python -m xla_notebook", description="Tools of xla_notebook.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="print versions and devices, and what to do about what is wrong")
    parser.parse_args(arguments)

    findings = doctor.check()
    print(doctor.render(findings))
    if doctor.main_job_works(findings):
        print("\nReady: %load_ext xla_notebook, then %%xla_compile.")
        return 0
    print("\nCells cannot be compiled until what is marked WRONG is mended.")
    return 1


if __name__ == "__main__":
    sys.exit(main())

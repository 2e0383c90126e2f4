"""Runs the checks of `aliasing_truth.py` in a process of their own.

They read the truth from device addresses, which only a process without anybody else's tensors and failed
lazy work can tell.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_aliasing_is_told_truly() -> None:
    checks = Path(__file__).with_name("aliasing_truth.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(checks)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]

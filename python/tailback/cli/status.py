"""Exit statuses, and what becomes of output that nobody reads."""

from __future__ import annotations

import os
import sys

DONE, FAULT, BAD_INPUT, NOT_WRITTEN = 0, 1, 2, 3


def silence_stdout() -> None:
    """What is still to be printed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

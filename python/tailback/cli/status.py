"""Exit statuses, and how to drop output without a reader."""

from __future__ import annotations

import os
import sys

DONE, FAULT, BAD_INPUT, NOT_WRITTEN = 0, 1, 2, 3


def silence_stdout() -> None:
    """Discards what is still to be printed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


TIME_LIMIT = 124
"""--time-limit ended the run; the status of timeout(1)."""

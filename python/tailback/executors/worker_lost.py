"""What becomes of a task whose process has ended."""

from __future__ import annotations

import signal


class WorkerLost(RuntimeError):  # noqa: N818  it is what happened
    """The process that carried out a task ended before the task did; the text says how."""

    @classmethod
    def by(cls, status: int) -> WorkerLost:
        """Of an exit status as `subprocess` gives it: a signal is negative."""
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        if status == -signal.SIGKILL:
            how += ", which is also how Linux ends a process when memory runs out"
        return cls(f"was ended {how}")

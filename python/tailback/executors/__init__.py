"""Executors of many runs (seeds, published experiments, sweeps): processes, threads or a Ray cluster.

A task is a function of a module with arguments that can be pickled. While it runs it may call
`report_progress`.
"""

from __future__ import annotations

from tailback.executors.processes import Processes
from tailback.executors.tasks import BorrowedExecutor, WorkerLost, kill, report_progress
from tailback.executors.threads import Threads

__all__ = ["BorrowedExecutor", "Processes", "Threads", "WorkerLost", "kill", "report_progress"]

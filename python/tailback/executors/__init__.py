"""Where tasks are carried out: in processes, in threads, or wherever another `concurrent.futures.Executor`
has them.

The scheduler of everything that is many runs: seeds, published experiments, sweeps. A task is a function of a
module with plain arguments. While it is carried out it may `tell` the one who asked for it how far it is.
"""

from __future__ import annotations

from tailback.executors.lent import Lent, end
from tailback.executors.processes import Processes
from tailback.executors.telling import tell
from tailback.executors.threads import Threads
from tailback.executors.worker_lost import WorkerLost

__all__ = ["Lent", "Processes", "Threads", "WorkerLost", "end", "tell"]

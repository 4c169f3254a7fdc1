"""Tasks in processes of this machine, which stay alive and take one task after another.

`concurrent.futures.ProcessPoolExecutor` gives up all tasks when a single process dies. Here each process has
its own socket and shares no lock: when a process dies, only its task fails, and another process takes its
place. The processes also end with their parent, however that ends; they do not run the main module again, as
those of `multiprocessing` do; and a task can report its progress.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from tailback import interrupts
from tailback.executors.tasks import OnProgress, Returned, WorkerLost
from tailback.executors.worker import STOP_MESSAGE
from tailback.start_up import OUT_OF_MEMORY_STATUS

_WORKER_CODE = (
    # argv[0] is that of the command, so that `tailback.start_up` prepares the process.
    "import sys; descriptor = int(sys.argv[1]); sys.path[:] = sys.argv[2:]; sys.argv[:] = ['tailback'];"
    "from tailback.executors.worker import main; main(descriptor)"
)


class _Task(NamedTuple):
    future: Future[Any]
    data: bytes


class _Worker:
    """A process, the parent's end of its socket, and its current task."""

    def __init__(self) -> None:
        own, other = socket.socketpair()
        with other:
            number = other.fileno()
            command = [sys.executable, "-c", _WORKER_CODE, str(number), *sys.path]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(number,))
        self.connection = Connection(own.detach())
        self.task: _Task | None = None


class Processes(Executor):
    """At most `jobs` tasks at a time; `on_progress` is called with what they report, from a thread.

    A future raises what its task raised. If the process ended, the future raises MemoryError where memory ran
    out, else `WorkerLost`.
    """

    def __init__(self, jobs: int, on_progress: OnProgress = lambda progress: None) -> None:
        self._jobs = jobs
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._waiting: deque[_Task] = deque()
        self._workers: list[_Worker] = []
        self._stopped = self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[..., Returned], /, *arguments: Any, **more: Any) -> Future[Returned]:
        """Queues a task: a function of a module, with arguments that can be pickled.

        Raises:
            RuntimeError: after `shutdown`.
        """
        future: Future[Returned] = Future()
        data = pickle.dumps((task, arguments, more), pickle.HIGHEST_PROTOCOL)
        with self._lock:
            if self._closed:
                raise RuntimeError("found a task after shutdown, expected none")
            self._waiting.append(_Task(future, data))
            if self._stopped:
                self._cancel()
            if self._thread is None:
                self._awake, self._wake = os.pipe()
                self._thread = threading.Thread(target=self._manage, name="tasks", daemon=True)
                self._thread.start()
        self._wake_up()
        return future

    def stop(self) -> None:
        """Ends running tasks at their next report of progress, and starts no others."""
        with self._lock:
            self._stopped = True
            self._cancel()
            for worker in self._workers:
                if worker.task is not None:
                    with suppress(OSError):
                        worker.connection.send_bytes(STOP_MESSAGE)

    def kill(self) -> None:
        """Ends all processes at once. Running tasks are lost; their futures raise `WorkerLost`."""
        with self._lock:
            self._closed = True
            self._cancel()
            for worker in self._workers:
                worker.process.kill()
        self.shutdown()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more tasks; ends the processes when all of them are done."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                self._cancel()
        if self._thread is not None:
            self._wake_up()
            if wait:
                self._thread.join()

    def _cancel(self) -> None:
        for task in self._waiting:
            task.future.cancel()

    def _wake_up(self) -> None:
        with suppress(OSError):  # it has ended already
            os.write(self._wake, b"\0")

    def _manage(self) -> None:
        """The thread that starts all processes, sends them tasks and reads their answers."""
        # Children inherit this mask: a signal to the process group must not end a child that is just starting.
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupts.ALL_SIGNALS)
        while self._feed():
            by_end = {worker.connection: worker for worker in self._workers}
            for ready in wait([self._awake, *by_end]):
                if isinstance(ready, int):
                    os.read(ready, 1 << 16)
                else:
                    self._read(by_end[ready])  # type: ignore[index]
        for worker in self._workers:
            worker.connection.close()
            worker.process.kill()
            worker.process.wait()
        self._workers.clear()
        for end in (self._awake, self._wake):
            os.close(end)

    def _feed(self) -> bool:
        """Gives tasks to idle workers; False when nothing is left to do."""
        with self._lock:
            while self._waiting:
                idle = next((worker for worker in self._workers if worker.task is None), None)
                if idle is None and len(self._workers) >= self._jobs:
                    break
                task = self._waiting.popleft()
                if not task.future.set_running_or_notify_cancel():
                    continue
                if idle is None:
                    try:
                        idle = _Worker()
                    except OSError as error:
                        task.future.set_exception(error)
                        continue
                    self._workers.append(idle)
                idle.task = task
                with suppress(OSError):  # it has just ended; reading its socket shows that
                    idle.connection.send_bytes(task.data)
            return not (self._closed and all(worker.task is None for worker in self._workers))

    def _read(self, worker: _Worker) -> None:
        """Reads one message of a worker, or notices that it has ended."""
        try:
            kind, value = worker.connection.recv()
        except (EOFError, OSError):
            self._remove(worker)
            return
        if kind == "progress":
            self._on_progress(value)
            return
        task, worker.task = worker.task, None
        assert task is not None
        if kind == "done":
            task.future.set_result(value)
        else:
            task.future.set_exception(value)

    def _remove(self, worker: _Worker) -> None:
        with self._lock:
            self._workers.remove(worker)
        worker.connection.close()
        status = worker.process.wait()
        if worker.task is not None:
            error = MemoryError() if status == OUT_OF_MEMORY_STATUS else WorkerLost.by(status)
            worker.task.future.set_exception(error)

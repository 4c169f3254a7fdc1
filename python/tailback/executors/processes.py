"""Tasks in processes of this machine, which stay alive and take one task after another.

`concurrent.futures.ProcessPoolExecutor` gives up all tasks when a single process dies. Here each process has
a socket of its own and no lock in common with others: the one whose process dies is a task that failed, and
another process takes its place. They also end with their parent, however that ends; they do not run the main
module again, as those of `multiprocessing` do; and a task may tell how far it is.
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
from typing import Any, NamedTuple, TypeVar

from tailback import signals
from tailback.executors.telling import Told
from tailback.executors.worker import STOP
from tailback.executors.worker_lost import WorkerLost
from tailback.start_up import OUT_OF_MEMORY

Given = TypeVar("Given")

_START = (
    # As the command, whose first moments `tailback.start_up` looks after.
    "import sys; descriptor = int(sys.argv[1]); sys.path[:] = sys.argv[2:]; sys.argv[:] = ['tailback'];"
    "from tailback.executors.worker import main; main(descriptor)"
)


class _Task(NamedTuple):
    future: Future[Any]
    data: bytes


class _Worker:
    """A process, its end of the socket, and the task that it is at."""

    def __init__(self) -> None:
        own, other = socket.socketpair()
        with other:
            number = other.fileno()
            command = [sys.executable, "-c", _START, str(number), *sys.path]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(number,))
        self.connection = Connection(own.detach())
        self.task: _Task | None = None


class Processes(Executor):
    """At most `jobs` tasks at a time; `told` is called with what they tell, from a thread.

    A future raises what its task raised. When its process ended instead it raises MemoryError, if that was
    for want of memory, or `WorkerLost`.
    """

    def __init__(self, jobs: int, told: Told = lambda said: None) -> None:
        """Nothing is started yet."""
        self._jobs = jobs
        self._told = told
        self._lock = threading.Lock()
        self._waiting: deque[_Task] = deque()
        self._workers: list[_Worker] = []
        self._stopped = self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[..., Given], /, *arguments: Any, **more: Any) -> Future[Given]:
        """A task to carry out, after those before it: a function of a module, and what can be pickled.

        Raises:
            RuntimeError: after `shutdown`.
        """
        future: Future[Given] = Future()
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
        self._stir()
        return future

    def stop(self) -> None:
        """Has the tasks under way end at the next thing that they tell, and begins no other."""
        with self._lock:
            self._stopped = True
            self._cancel()
            for worker in self._workers:
                if worker.task is not None:
                    with suppress(OSError):
                        worker.connection.send_bytes(STOP.encode())

    def kill(self) -> None:
        """Ends all processes at once. What is under way is lost; the futures say so."""
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
            self._stir()
            if wait:
                self._thread.join()

    def _cancel(self) -> None:
        for task in self._waiting:
            task.future.cancel()

    def _stir(self) -> None:
        with suppress(OSError):  # it has ended already
            os.write(self._wake, b"\0")

    def _manage(self) -> None:
        """The thread that all processes are started, fed and heard from."""
        # A child that is only just starting must not be the one that a signal to all is told to; it has what
        # this thread has.
        signal.pthread_sigmask(signal.SIG_BLOCK, signals.ENDING)
        while self._feed():
            by_end = {worker.connection: worker for worker in self._workers}
            for ready in wait([self._awake, *by_end]):
                if isinstance(ready, int):
                    os.read(ready, 1 << 16)
                else:
                    self._hear(by_end[ready])  # type: ignore[index]
        for worker in self._workers:
            worker.connection.close()
            worker.process.kill()
            worker.process.wait()
        self._workers.clear()
        for end in (self._awake, self._wake):
            os.close(end)

    def _feed(self) -> bool:
        """Gives tasks to idle workers. False when there is nothing more to do."""
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
                with suppress(OSError):  # it has just ended: its end of the socket tells
                    idle.connection.send_bytes(task.data)
            return not (self._closed and all(worker.task is None for worker in self._workers))

    def _hear(self, worker: _Worker) -> None:
        """Takes one message of a worker, or sees that it has ended."""
        try:
            what, value = worker.connection.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        if what == "told":
            self._told(value)
            return
        task, worker.task = worker.task, None
        assert task is not None
        if what == "done":
            task.future.set_result(value)
        else:
            task.future.set_exception(value)

    def _bury(self, worker: _Worker) -> None:
        with self._lock:
            self._workers.remove(worker)
        worker.connection.close()
        status = worker.process.wait()
        if worker.task is not None:
            error = MemoryError() if status == OUT_OF_MEMORY else WorkerLost.by(status)
            worker.task.future.set_exception(error)

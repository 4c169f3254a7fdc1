"""A worker process: it carries out one task after another, and ends with its parent."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from tailback import interrupts
from tailback.executors.tasks import progress_callback
from tailback.start_up import FAILED_STATUS

STOP_MESSAGE = b"stop"
"""Sent in place of a task: the running task is to end with what it has."""


def main(descriptor: int) -> None:
    """Reads tasks from a socket, and writes their results to it."""
    # A terminal signals its whole process group: the parent acts on that, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts.ALL_SIGNALS)
    os.set_inheritable(descriptor, False)
    connection = Connection(descriptor)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    stopped = threading.Event()
    threading.Thread(target=_receive, args=(connection, tasks, stopped), daemon=True).start()

    def report(progress: Any) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        connection.send(("progress", progress))

    progress_callback.set(report)
    while True:
        connection.send_bytes(_answer(tasks.get()))


def _receive(connection: Connection, tasks: queue.SimpleQueue[bytes], stopped: threading.Event) -> None:
    """Reads messages; ends this process when the parent has ended, even in the middle of a run: the engine
    runs without the interpreter's lock.
    """
    try:
        while True:
            data = connection.recv_bytes()
            if data == STOP_MESSAGE:
                stopped.set()
            else:
                tasks.put(data)
    except (EOFError, OSError):
        os._exit(FAILED_STATUS)


def _answer(data: bytes) -> bytes:
    try:
        task, arguments, more = pickle.loads(data)
        return pickle.dumps(("done", task(*arguments, **more)), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        return _failure(error)


def _failure(error: BaseException) -> bytes:
    """The error as a message; in words where it cannot be pickled."""
    try:
        data = pickle.dumps(("error", error), pickle.HIGHEST_PROTOCOL)
        pickle.loads(data)
    except Exception:
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"
        data = pickle.dumps(("error", RuntimeError(words)), pickle.HIGHEST_PROTOCOL)
    return data

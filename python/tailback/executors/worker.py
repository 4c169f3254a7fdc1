"""A worker: a process that carries out one task after another, and ends with the one that has started it."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from tailback import signals
from tailback.executors.telling import teller
from tailback.start_up import FAILED

STOP = "stop"
"""What is sent in place of a task: the one under way is to end with what it has."""


def main(descriptor: int) -> None:
    """Takes tasks from a socket, and answers there."""
    # A signal reaches all processes of a terminal. Those are for the parent, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.ENDING)
    os.set_inheritable(descriptor, False)
    connection = Connection(descriptor)
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    stopped = threading.Event()
    threading.Thread(target=_receive, args=(connection, tasks, stopped), daemon=True).start()

    def told(said: Any) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        connection.send(("told", said))

    teller.set(told)
    while True:
        connection.send_bytes(_answer(tasks.get()))


def _receive(connection: Connection, tasks: queue.SimpleQueue[bytes], stopped: threading.Event) -> None:
    """Also sees the parent's end, even if that is killed, and in the middle of a run: the engine needs no
    lock of the interpreter.
    """
    try:
        while True:
            data = connection.recv_bytes()
            if data == STOP.encode():
                stopped.set()
            else:
                tasks.put(data)
    except (EOFError, OSError):
        os._exit(FAILED)


def _answer(data: bytes) -> bytes:
    try:
        task, arguments, more = pickle.loads(data)
        return pickle.dumps(("done", task(*arguments, **more)), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        return _failure(error)


def _failure(error: BaseException) -> bytes:
    """Whatever was raised may not be something that can be sent."""
    try:
        data = pickle.dumps(("error", error), pickle.HIGHEST_PROTOCOL)
        pickle.loads(data)
    except Exception:
        words = f"{type(error).__name__}: {' '.join(str(error).split())}"
        data = pickle.dumps(("error", RuntimeError(words)), pickle.HIGHEST_PROTOCOL)
    return data

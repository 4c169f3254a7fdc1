"""Where tasks are carried out: nothing is lost, nothing hangs, whatever becomes of the processes."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, as_completed

import pytest
from executor_tasks import fill_memory, raise_odd, until_stopped, work_and_tell
from tailback.executors import Processes, Threads, WorkerLost

Made = Callable[..., Executor]


@pytest.mark.parametrize("kind", [Processes, Threads])
def test_tasks_give_results_and_raise_what_they_raise(kind: Made) -> None:
    with kind(2) as executor:
        futures = {executor.submit(math.sqrt, number): number for number in range(20)}
        assert all(future.result() == math.sqrt(futures[future]) for future in as_completed(futures))
        with pytest.raises(ValueError, match=r"math domain|nonnegative"):
            executor.submit(math.sqrt, -1).result()
    with pytest.raises(RuntimeError):
        executor.submit(math.sqrt, 1)


def test_processes_stay_alive_and_are_as_many_as_jobs() -> None:
    with Processes(2) as executor:
        tasks = [executor.submit(os.getpid) for _ in range(40)]
        processes = {task.result() for task in tasks}
    assert 1 <= len(processes) <= 2
    assert os.getpid() not in processes


def test_an_error_that_cannot_be_sent_comes_in_words() -> None:
    with Processes(1) as executor, pytest.raises(RuntimeError, match=r"^Odd: it is 7 odd$"):
        executor.submit(raise_odd).result()


def test_a_process_that_dies_is_a_task_that_failed_and_no_other() -> None:
    with Processes(2) as executor:
        before = [executor.submit(math.sqrt, number) for number in range(5)]
        lost = executor.submit(signal.raise_signal, signal.SIGKILL)
        after = [executor.submit(math.sqrt, number) for number in range(5)]
        left = executor.submit(os._exit, 3)
        assert [task.result() for task in (*before, *after)] == [math.sqrt(n) for n in range(5)] * 2
        with pytest.raises(WorkerLost, match=r"^was ended by signal 9, which is also how Linux ends"):
            lost.result()
        with pytest.raises(WorkerLost, match=r"^was ended with status 3$"):
            left.result()
        assert executor.submit(math.sqrt, 4).result() == 2


def test_memory_that_runs_out_is_a_task_that_failed() -> None:
    with Processes(1) as executor:
        with pytest.raises(MemoryError):
            executor.submit(fill_memory).result()
        assert executor.submit(math.sqrt, 4).result() == 2


@pytest.mark.parametrize("kind", [Processes, Threads])
def test_a_task_tells_how_far_it_is(kind: Made) -> None:
    heard: list[object] = []
    with kind(2, heard.append) as executor:
        for name in ("a", "b"):
            executor.submit(work_and_tell, name, 3)
    assert sorted(heard, key=str) == [(name, step) for name in ("a", "b") for step in range(3)]


@pytest.mark.parametrize("kind", [Processes, Threads])
def test_what_is_stopped_ends_with_what_it_has_and_nothing_else_is_begun(
    kind: type[Processes] | type[Threads],
) -> None:
    begun = threading.Event()
    with kind(1, lambda said: begun.set()) as executor:
        first, second = (executor.submit(until_stopped) for _ in range(2))
        assert begun.wait(60)
        executor.stop()
        assert first.result() > 0
        for never in (second, executor.submit(until_stopped)):
            with pytest.raises(CancelledError):
                never.result()


def test_kill_ends_what_is_under_way() -> None:
    executor = Processes(1)
    process = executor.submit(os.getpid).result()
    under_way, waiting = executor.submit(time.sleep, 1000), executor.submit(time.sleep, 1000)
    while not under_way.running():
        time.sleep(0.001)
    executor.kill()
    with pytest.raises(WorkerLost):
        under_way.result()
    assert waiting.cancelled()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)

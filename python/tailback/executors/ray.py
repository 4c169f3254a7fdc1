"""Tasks on a Ray cluster (docs.ray.io, Ray Core).

Ray carries a task out again when its node or its process was lost; only after `RETRIES` of them it has
failed. What tasks tell stays where they are.
"""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from contextlib import suppress
from typing import Any, TypeVar

from tailback.errors import InputError, plain
from tailback.executors.worker_lost import WorkerLost
from tailback.version import __version__, build

Given = TypeVar("Given")

RETRIES = 3
"""Times that a task is begun anew after its worker was lost."""
LOCAL = "ray"
"""The cluster of this machine, or the one that the environment names (RAY_ADDRESS); where there is none, one
is started for as long as it is needed.
"""
_CONNECT_S = 5.0
"""Time that a cluster has to take a connection: Ray itself tries for minutes."""
_CLIENT_PORT = 10001
"""That of ray://host without one."""


class RayTasks(Executor):
    """Tasks on the cluster at an address: `ray`, or `ray://host:10001`.

    `jobs` are the CPUs of the cluster.

    Raises:
        InputError: Ray is not installed, there is no cluster, or a node has another version.
    """

    def __init__(self, address: str) -> None:
        """Connects, and looks at the version on each node."""
        self._ray = ray = _imported()
        self._refs: dict[Any, Any] = {}
        self._closed = False
        errors = ray.exceptions
        self._lost = (errors.TaskUnschedulableError, errors.NodeDiedError, errors.WorkerCrashedError)
        self._ours = not ray.is_initialized()
        if self._ours:
            there = os.environ.get("RAY_ADDRESS", "") if address == LOCAL else address
            _look_whether_one_listens(address, there)
            try:
                with warnings.catch_warnings():  # what is wrong is said in a line, below
                    warnings.simplefilter("ignore")
                    ray.init(
                        address=None if address == LOCAL else address,
                        logging_level=logging.ERROR,
                        log_to_driver=False,
                        include_dashboard=False if address == LOCAL else None,
                        configure_logging=False,
                    )
            except Exception as error:
                words = " ".join(str(error).split())[:200] or type(error).__name__
                raise _refused(address, f"found no cluster ({words}), expected one that runs") from None
        try:
            self._look_at_nodes(address)
        except BaseException:
            self.shutdown(wait=False)
            raise
        self.jobs = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._remote = ray.remote(_carry_out).options(max_retries=RETRIES, num_cpus=1)

    def submit(self, task: Callable[..., Given], /, *arguments: Any, **more: Any) -> Future[Given]:
        """A task to carry out: a function of a module, and what can be pickled.

        Raises:
            RuntimeError: after `shutdown`.
        """
        if self._closed:
            raise RuntimeError("found a task after shutdown, expected none")
        ref = self._remote.remote(task, arguments, more)
        future: Future[Given] = Future()
        future.set_running_or_notify_cancel()
        self._refs[ref] = future

        def over(got: Future[Any]) -> None:
            self._refs.pop(ref, None)
            error = got.exception()
            if error is None:
                future.set_result(got.result())
            else:
                future.set_exception(self._plain(error))

        ref.future().add_done_callback(over)
        return future

    def stop(self) -> None:
        """Cancels what waits, and has the tasks under way end with what they have."""
        self._closed = True
        for ref in list(self._refs):
            with suppress(Exception):
                self._ray.cancel(ref)

    def kill(self) -> None:
        """Ends what is under way, and leaves the cluster."""
        for ref in list(self._refs):
            with suppress(Exception):
                self._ray.cancel(ref, force=True)
        self.shutdown(wait=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leaves the cluster, with `wait` when all tasks are done."""
        self._closed = True
        if wait and not cancel_futures:
            for future in list(self._refs.values()):
                with suppress(Exception):
                    future.result()
        if self._ours:
            self._ray.shutdown()

    def _look_at_nodes(self, address: str) -> None:
        """Raises InputError where a node has not this very package."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}
        asked = {
            node: self._ray.remote(_what_runs)
            .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
            .remote()
            for node in nodes
        }
        own = (__version__, build())
        for node, ref in asked.items():
            try:
                found = self._ray.get(ref, timeout=120)
            except self._lost:
                continue  # it has gone meanwhile: nothing will run there
            except Exception as error:
                words = " ".join(str(error).split())[-200:]
                text = f"found node {nodes[node]} without tailback ({words}), expected {own[0]}"
                raise _refused(address, text) from None
            if tuple(found) != own:
                raise _refused(
                    address,
                    f"found tailback {found[0]}, build {found[1]}, on node {nodes[node]}, "
                    f"expected {own[0]}, build {own[1]}",
                )

    def _plain(self, error: BaseException) -> BaseException:
        """What a task has raised, as it raised it; or that its worker was lost."""
        errors = self._ray.exceptions
        if isinstance(error, errors.RayTaskError):
            cause = getattr(error, "cause", None)
            return cause if isinstance(cause, BaseException) else RuntimeError(" ".join(str(error).split()))
        if isinstance(error, errors.TaskCancelledError):
            return CancelledError()
        if isinstance(error, errors.OutOfMemoryError):
            return MemoryError()
        return WorkerLost(f"was lost: {' '.join(str(error).split())[:200]}")


def _imported() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError:
        text = (
            "found no Ray, expected it to be installed: pip install 'tailback[ray]' (where Ray has a wheel)"
        )
        raise _refused("", text) from None
    return ray


def _look_whether_one_listens(given: str, address: str) -> None:
    """Raises InputError, of what was `given`, where nothing takes a connection at an address."""
    client = address.startswith("ray://")
    host, colon, port = address.removeprefix("ray://").partition("?")[0].rpartition(":")
    if client and not colon:
        host, port = port, str(_CLIENT_PORT)
    elif not colon:  # a word, such as "auto"
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except (OSError, ValueError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        found = f"found nothing that listens at {plain(address)} ({plain(str(why))})"
        raise _refused(given, f"{found}, expected a cluster that runs") from None


def _refused(address: str, text: str) -> InputError:
    return InputError.at(f"--on {address}".strip(), text)


def _carry_out(task: Callable[..., Any], arguments: Any, more: Any) -> Any:
    return task(*arguments, **more)


def _what_runs() -> tuple[str, str]:
    return __version__, build()

"""Tasks on a Ray cluster (docs.ray.io, Ray Core).

Ray repeats a task when its node or its process was lost; the task fails after `MAX_RETRIES` repeats. Progress that
tasks report does not leave their node.
"""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from contextlib import suppress
from typing import Any

from tailback.errors import InputError, plain
from tailback.executors.tasks import Returned, WorkerLost
from tailback.version import __version__, build

MAX_RETRIES = 3
"""Repeats of a task whose worker was lost."""
LOCAL_ADDRESS = "ray"
"""The cluster of RAY_ADDRESS, else the one of this machine; where there is none, one is started for the command."""
_CONNECT_S = 5.0
"""Ray itself tries to connect for minutes."""
_DEFAULT_CLIENT_PORT = 10001


class RayTasks(Executor):
    """Tasks on the cluster at an address: `ray`, or `ray://host:10001`.

    `jobs` is the number of CPUs of the cluster.

    Raises:
        InputError: Ray is not installed, there is no cluster, or a node has another version.
    """

    def __init__(self, address: str) -> None:
        self._ray = ray = _imported()
        self._refs: dict[Any, Any] = {}
        self._closed = False
        errors = ray.exceptions
        self._lost = (errors.TaskUnschedulableError, errors.NodeDiedError, errors.WorkerCrashedError)
        self._ours = not ray.is_initialized()
        if self._ours:
            there = os.environ.get("RAY_ADDRESS", "") if address == LOCAL_ADDRESS else address
            _check_connection(address, there)
            try:
                with warnings.catch_warnings():  # the error below says what is wrong
                    warnings.simplefilter("ignore")
                    ray.init(
                        address=None if address == LOCAL_ADDRESS else address,
                        logging_level=logging.ERROR,
                        log_to_driver=False,
                        include_dashboard=False if address == LOCAL_ADDRESS else None,
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
        self._remote = ray.remote(_carry_out).options(max_retries=MAX_RETRIES, num_cpus=1)

    def submit(self, task: Callable[..., Returned], /, *arguments: Any, **more: Any) -> Future[Returned]:
        """Queues a task: a function of a module, with arguments that can be pickled.

        Raises:
            RuntimeError: after `shutdown`.
        """
        if self._closed:
            raise RuntimeError("found a task after shutdown, expected none")
        ref = self._remote.remote(task, arguments, more)
        future: Future[Returned] = Future()
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
        """Cancels waiting tasks; running tasks end with what they have."""
        self._closed = True
        for ref in list(self._refs):
            with suppress(Exception):
                self._ray.cancel(ref)

    def kill(self) -> None:
        """Ends running tasks, and disconnects from the cluster."""
        for ref in list(self._refs):
            with suppress(Exception):
                self._ray.cancel(ref, force=True)
        self.shutdown(wait=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnects from the cluster; with `wait`, when all tasks are done."""
        self._closed = True
        if wait and not cancel_futures:
            for future in list(self._refs.values()):
                with suppress(Exception):
                    future.result()
        if self._ours:
            self._ray.shutdown()

    def _look_at_nodes(self, address: str) -> None:
        """Raises InputError where a node has another version or build of Tailback."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}
        asked = {
            node: self._ray.remote(_version_and_build)
            .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
            .remote()
            for node in nodes
        }
        own = (__version__, build())
        for node, ref in asked.items():
            try:
                found = self._ray.get(ref, timeout=120)
            except self._lost:
                continue  # the node was lost meanwhile: nothing will run there
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
        """The error that the task raised, or `WorkerLost`."""
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


def _check_connection(given: str, address: str) -> None:
    """Raises InputError where nothing accepts a connection at `address`; the message names what was `given`."""
    client = address.startswith("ray://")
    host, colon, port = address.removeprefix("ray://").partition("?")[0].rpartition(":")
    if client and not colon:
        host, port = port, str(_DEFAULT_CLIENT_PORT)
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


def _version_and_build() -> tuple[str, str]:
    return __version__, build()

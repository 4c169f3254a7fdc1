"""The two namespaces of a veth pair, as processes that answer calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from typing import Any

from tailback.errors import InputError
from tailback.live.veth.kernel import CONSUMER_IF, PRODUCER_IF

WHERE = "tailback live"


class CallFailed(RuntimeError):  # noqa: N818  it is what happened
    """A call in a namespace did not do what it was to do; the text is one line."""


class _Namespace:
    def __init__(self) -> None:
        command = [sys.executable, "-m", "tailback.live.veth.agent"]
        # A Ctrl-C is for the parent: it ends the namespaces.
        self.process = subprocess.Popen(
            command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise CallFailed("the process of a namespace has ended")
        told = json.loads(line)
        if "error" in told:
            raise CallFailed(str(told["error"]).lower())
        return told["found"]

    def call(self, name: str, **given: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"call": name, **given}) + "\n")
        self.process.stdin.flush()
        return self.answer()


class Namespaces(AbstractContextManager["Namespaces"]):
    """A producer's namespace and a consumer's; they are gone with the context, or with this process."""

    def __init__(self) -> None:
        """Makes them.

        Raises:
            InputError: that is not permitted.
        """
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise InputError.at(WHERE, "found 1 core, expected 2: one sends while the other polls")
        self.cores = cores[0], cores[-1]
        """Of the consumer's polls, and of all else."""
        self.producer, self.consumer = _Namespace(), _Namespace()
        try:
            self.producer.answer()
            self._consumer = self.consumer.answer()
        except CallFailed as error:
            self.__exit__()
            expected = "expected a network namespace (CAP_SYS_ADMIN: as root, or under unshare -rn)"
            raise InputError.at(WHERE, f"found {error}, {expected}") from None

    def __exit__(self, *_: object) -> None:
        """Ends the processes, and what belongs to them with them."""
        for one in (self.producer, self.consumer):
            one.process.kill()
            one.process.wait()
            for pipe in (one.process.stdin, one.process.stdout):
                if pipe is not None:
                    pipe.close()

    def pair(self, threaded: bool) -> None:
        """A new pair between them."""
        self.producer.call("connect", consumer=self._consumer)
        consumers, others = self.cores
        self.consumer.call("set_up", interface=CONSUMER_IF, threaded=threaded, core=consumers)
        self.producer.call("set_up", interface=PRODUCER_IF, threaded=threaded, core=others)

"""The two namespaces of a veth pair: processes that answer calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from typing import Any

from tailback.errors import InputError
from tailback.live.veth.kernel import CONSUMER_IF, PRODUCER_IF

COMMAND_NAME = "tailback live"


class CallFailed(RuntimeError):  # noqa: N818  it is what happened
    """A call in a namespace failed; the text is one line."""


class _Namespace:
    def __init__(self) -> None:
        command = [sys.executable, "-m", "tailback.live.veth.agent"]
        # Ctrl-C must reach only the parent, which ends the namespaces.
        self.process = subprocess.Popen(
            command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise CallFailed("the process of a namespace has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise CallFailed(str(answer["error"]).lower())
        return answer["found"]

    def call(self, name: str, **given: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"call": name, **given}) + "\n")
        self.process.stdin.flush()
        return self.answer()


class Namespaces(AbstractContextManager["Namespaces"]):
    """Namespaces of producer and consumer; they end with the context, or with this process."""

    def __init__(self) -> None:
        """Makes the namespaces.

        Raises:
            InputError: that is not permitted.
        """
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise InputError.at(COMMAND_NAME, "found 1 core, expected 2: one sends while the other polls")
        self.cores = cores[0], cores[-1]
        """Core of the consumer's polls, and core of everything else."""
        self.producer, self.consumer = _Namespace(), _Namespace()
        try:
            self.producer.answer()
            self._consumer = self.consumer.answer()
        except CallFailed as error:
            self.__exit__()
            expected = "expected a network namespace (CAP_SYS_ADMIN: as root, or under unshare -rn)"
            raise InputError.at(COMMAND_NAME, f"found {error}, {expected}") from None

    def __exit__(self, *_: object) -> None:
        for one in (self.producer, self.consumer):
            one.process.kill()
            one.process.wait()
            for pipe in (one.process.stdin, one.process.stdout):
                if pipe is not None:
                    pipe.close()

    def pair(self, threaded: bool) -> None:
        """Makes a new veth pair between the namespaces."""
        self.producer.call("connect", consumer=self._consumer)
        consumers, others = self.cores
        self.consumer.call("set_up", interface=CONSUMER_IF, threaded=threaded, core=consumers)
        self.producer.call("set_up", interface=PRODUCER_IF, threaded=threaded, core=others)

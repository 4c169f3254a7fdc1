"""How a task tells how far it is, and learns that it is to end."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

Told = Callable[[Any], None]
"""Called with whatever a task tells, from another thread than the one that has submitted it."""

teller: ContextVar[Told] = ContextVar("teller", default=lambda said: None)
"""What an executor does with it, in the thread of the task."""


def tell(said: Any) -> None:
    """Tells the owner of the executor something of the task under way: what can be pickled. Where nobody
    listens, as in an executor that is none of Tailback's, it does nothing.

    Raises:
        KeyboardInterrupt: the task is to end with what it has.
    """
    teller.get()(said)

"""What is worked out once for each result, however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from tailback.recorded.run import Recorded

Value = TypeVar("Value")


def remembered(function: Callable[[Recorded], Value]) -> Callable[[Recorded], Value]:
    """Remembers what a function gives of a result, which must not change, for as long as it lives."""
    values: WeakKeyDictionary[Recorded, Value] = WeakKeyDictionary()

    @wraps(function)
    def remembering(result: Recorded) -> Value:
        if result not in values:
            values[result] = function(result)
        return values[result]

    return remembering

"""What is worked out once for each result, however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tailback.results import Result

Value = TypeVar("Value")


def remembered(function: Callable[[Result], Value]) -> Callable[[Result], Value]:
    """Remembers what a function gives of a result, which must not change, for as long as it lives."""
    values: WeakKeyDictionary[Result, Value] = WeakKeyDictionary()

    @wraps(function)
    def remembering(result: Result) -> Value:
        if result not in values:
            values[result] = function(result)
        return values[result]

    return remembering

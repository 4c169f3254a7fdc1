"""What is worked out once for each result, however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from tailback.recorded.run import Recorded

Given = ParamSpec("Given")
Value = TypeVar("Value")


def remembered(
    function: Callable[Concatenate[Recorded, Given], Value],
) -> Callable[Concatenate[Recorded, Given], Value]:
    """Remembers what a function gives of a result, which must not change, for as long as it lives; for each
    choice of its other arguments, which must be hashable.
    """
    values: WeakKeyDictionary[Recorded, dict[Hashable, Any]] = WeakKeyDictionary()

    @wraps(function)
    def remembering(result: Recorded, /, *args: Given.args, **more: Given.kwargs) -> Value:
        known = values.setdefault(result, {})
        asked = (args, *more.items())
        if asked not in known:
            known[asked] = function(result, *args, **more)
        value: Value = known[asked]
        return value

    return remembering

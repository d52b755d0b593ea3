"""``@funken.vectorized``: a function that is called with a block of records at once.

The decorator only marks the function, with the form in which it wants its records and the type of its results. Called, it is the
function itself, so that it can be tested as it is.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, overload

from funken import extras
from funken.errors import InvalidProgram


class BatchFormat(enum.Enum):
    """The form of a block in a function; of a record that is a single value, and of others."""

    NUMPY = "numpy"
    """An array; records of arrays."""
    ARROW = "arrow"
    """A ``pyarrow.Array``; a ``RecordBatch``."""
    PANDAS = "pandas"
    """A ``Series``; a ``DataFrame``."""
    POLARS = "polars"
    """A ``Series``; a ``DataFrame``."""

    @staticmethod
    def of(name: str) -> BatchFormat:
        """Return a format by its name; raises ``InvalidProgram``.

        >>> BatchFormat.of("arrow"), BatchFormat.of("jax")
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: the batch format 'jax' is unknown. Give one of 'numpy', 'arrow', 'pandas', 'polars'.
        """
        found = next((each for each in BatchFormat if each.value == name), None)
        if found is None:
            known = ", ".join(repr(each.value) for each in BatchFormat)
            raise InvalidProgram(f"the batch format {name!r} is unknown. Give one of {known}.")
        extras.need("columns", "a function of batches")
        return found


class VectorizedFunction:
    """A function that ``vectorized`` has marked."""

    def __init__(self, function: Callable[..., Any], output_type: Any, batch_format: BatchFormat) -> None:
        update_wrapper(self, function)
        self.function = function
        self.output_type = output_type
        self.batch_format = batch_format

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.function(*arguments)

    def __get__(self, owner: Any, kind: type | None = None) -> VectorizedFunction:
        """Return the method of an object."""
        if owner is None:
            return self
        return VectorizedFunction(MethodType(self.function, owner), self.output_type, self.batch_format)


@overload
def vectorized(function: Callable[..., Any], /) -> VectorizedFunction: ...
@overload
def vectorized(
    *, output_type: Any = None, batch_format: str = "numpy"
) -> Callable[[Callable[..., Any]], VectorizedFunction]: ...
def vectorized(
    function: Callable[..., Any] | None = None, /, *, output_type: Any = None, batch_format: str = "numpy"
) -> VectorizedFunction | Callable[[Callable[..., Any]], VectorizedFunction]:
    """Mark a function, or a method of a ``MapFunction`` or ``FilterFunction``, that takes a block of records at once.

    ``map`` and ``filter`` call it with columns, and it returns as many results, or a mask. ``batch_format`` is ``"numpy"``,
    ``"arrow"``, ``"pandas"`` or ``"polars"``. With an ``output_type`` (``Types``, or Python types: ``float``, ``(str, int)``,
    ``{"city": str, "degrees": float | None}``, an annotated dataclass or named tuple) what follows works on columns too.
    Raises ``InvalidProgram`` for an unknown format, ``TypeError`` for an object that is no type.

    >>> from funken.testing import local
    >>> @vectorized(output_type=float)
    ... def celsius(fahrenheit):
    ...     return (fahrenheit - 32) / 1.8
    >>> local([50, 212]).map(celsius).execute_and_collect(limit=2)
    [10.0, 100.0]

    A record is a record of columns:

    >>> @vectorized(output_type={"city": str, "warm": bool})
    ... def judged(reading):
    ...     return {"city": reading["city"], "warm": reading["degrees"] > 20.0}
    >>> local([{"city": "Kiel", "degrees": 8.5}, {"city": "Bari", "degrees": 24.0}]).map(judged).execute_and_collect(limit=2)
    [{'city': 'Kiel', 'warm': False}, {'city': 'Bari', 'warm': True}]
    """
    chosen = BatchFormat.of(batch_format)

    def mark(marked: Callable[..., Any]) -> VectorizedFunction:
        return VectorizedFunction(marked, output_type, chosen)

    return mark if function is None else mark(function)

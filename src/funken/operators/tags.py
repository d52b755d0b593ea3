"""Output tags: what a function yields together with a value for a side output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, TypeAlias

from funken.dataclass import dataclass
from funken.types.generics import Generic, T
from funken.types.info import TypeInformation, TypeOf


@dataclass(frozen=True, slots=True)
class OutputTag(Generic[T]):
    """Names a side output; tags with equal ids are the same output. ``OutputTag("late", str)`` is one of text.

    The type is a class, for type checkers, or a declaration, which also converts the records (a list of them: of rows).

    >>> OutputTag("late") == OutputTag("late", str)
    True
    """

    tag_id: str
    type_info: TypeOf[T] | Sequence[TypeInformation] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.tag_id:
            raise ValueError("OutputTag tag_id cannot be None or empty string: give the side output a name.")


SideOutput: TypeAlias = tuple[OutputTag[Any], Any]
"""What a function returns or yields among its results for a side output."""

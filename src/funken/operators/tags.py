"""Output tags: what a function yields together with a value for a side output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Names a side output; tags with equal ids are the same output. The type information is not used.

    >>> OutputTag("late") == OutputTag("late", "any type information")
    True
    """

    tag_id: str
    type_info: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.tag_id:
            raise ValueError("OutputTag tag_id cannot be None or empty string: give the side output a name.")

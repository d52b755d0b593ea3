"""What is followed, and where it is: a function or comprehension, and the loop around an instruction."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from funken.columnar.bytecode import Operation
from funken.columnar.expressions import Expression
from funken.columnar.flat_maps.emissions import Emission
from funken.dataclass import dataclass

Variables = dict[str, Any]


@dataclass(frozen=True)
class Code:
    """What is followed: a function, or the function that a comprehension is."""

    of: CodeType
    operations: list[Operation]
    generator: bool
    comprehension: bool = False
    back: Callable[[Any, Variables, tuple[Expression, ...], Emission], None] | None = None
    """Called with what a function returns that another one calls; ``None``: it is the one that is followed."""


Then = Callable[[Variables, tuple[Expression, ...], Emission], None]


@dataclass(frozen=True)
class LoopAround:
    """The loop around an instruction: where it begins and ends, and what comes when its body is through."""

    at: int
    stop: int
    then: Then


__all__ = ["Code", "LoopAround", "Then", "Variables"]

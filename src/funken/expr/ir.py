"""Expressions as data: references to columns, constants, calls of functions. Nodes are frozen, and equal ones are equal.

A node knows its type, which is whatever the language that made it uses (``funken.expr.sql.types`` for SQL).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from funken.dataclass import dataclass


@dataclass(frozen=True)
class Node:
    """An expression; ``type`` is the type of its value."""

    type: Any = field(kw_only=True)

    @property
    def children(self) -> tuple[Node, ...]:
        """Return the nodes right below."""
        return ()


@dataclass(frozen=True)
class InputRef(Node):
    """Column ``index`` of the rows that the expression is computed for."""

    index: int

    def __str__(self) -> str:
        return f"${self.index}"


@dataclass(frozen=True)
class Literal(Node):
    """A constant; ``None`` is NULL. Times are numbers, as in ``funken.expr.sql.values``."""

    value: Any

    @cached_property
    def _hash(self) -> int:
        # 1, 1.0 and True are equal in Python, and no constants of one kind here.
        return hash((type(self.value), repr(self.value), self.type))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Literal)
            and self.type == other.type
            and type(self.value) is type(other.value)
            and repr(self.value) == repr(other.value)
        )

    def __str__(self) -> str:
        return "NULL" if self.value is None else repr(self.value)


@dataclass(frozen=True)
class Call(Node):
    """A call of a function, by the name of its row in the table; ``options`` are the syntax beside arguments.

    >>> call = Call("+", (InputRef(0, type="INT"), Literal(1, type="INT")), type="INT")
    >>> str(call), call == Call("+", (InputRef(0, type="INT"), Literal(1, type="INT")), type="INT")
    ('+($0, 1)', True)
    """

    function: str
    args: tuple[Node, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    handle: Any = field(default=None, compare=True, repr=False)
    """The implementation of the call where no row of a table has one: a user's function."""

    @cached_property
    def _hash(self) -> int:
        return hash((self.function, self.args, self.options, self.type, id(self.handle)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def children(self) -> tuple[Node, ...]:
        """Return the nodes right below."""
        return self.args

    def option(self, name: str, default: Any = None) -> Any:
        """Return an option by name."""
        return next((value for key, value in self.options if key == name), default)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.args))})"


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything below it, parents first."""
    yield node
    for child in node.children:
        yield from walk(child)


def rewrite(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return a tree in which ``change`` was applied to every node, children first."""
    if isinstance(node, Call):
        args = tuple(rewrite(each, change) for each in node.args)
        if any(new is not old for new, old in zip(args, node.args, strict=True)):
            node = replace(node, args=args)
    return change(node)


def input_refs(node: Node) -> set[int]:
    """Return the columns that an expression reads."""
    return {each.index for each in walk(node) if isinstance(each, InputRef)}


def shifted(node: Node, positions: Mapping[int, int] | Callable[[int], int]) -> Node:
    """Return a tree whose columns stand at other positions."""
    place = positions if callable(positions) else positions.__getitem__
    return rewrite(node, lambda each: replace(each, index=place(each.index)) if isinstance(each, InputRef) else each)

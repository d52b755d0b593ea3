"""The rows of a match, as expressions of DEFINE and MEASURES see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from funken.cep.buffer import Node

NO_ROW: Any = None
"""What is where there is no row; its columns are NULL."""


class MatchedRows:
    """Rows, the variable that took each, and rows before them; a condition is evaluated with its own row as the last.

    >>> rows = MatchedRows(["A", "B", "A"], [1, 2, 3], before=[0])
    >>> rows.places("A"), rows.at(2), rows.at(-1), rows.at(-2) is NO_ROW
    ([0, 2], 3, 0, True)
    """

    __slots__ = ("before", "names", "rows", "subsets", "timestamp")

    def __init__(
        self,
        names: Sequence[str],
        rows: Sequence[Any],
        before: Sequence[Any] = (),
        subsets: Mapping[str, Sequence[str]] = {},
        timestamp: int = 0,
    ) -> None:
        self.names = names
        self.rows = rows
        self.before = before
        self.subsets = subsets
        self.timestamp = timestamp

    def places(self, variable: str) -> Sequence[int]:
        """Return the places of the rows of a variable or SUBSET, or (the empty name) of all."""
        if not variable:
            return range(len(self.rows))
        wanted = self.subsets.get(variable, (variable,))
        return [place for place, name in enumerate(self.names) if name in wanted]

    def last(self, variable: str, offset: int = 0) -> Any:
        """Return the last row of a variable, or the one ``offset`` before it; ``NO_ROW`` if there is none."""
        if not variable and not offset:
            return self.rows[-1]
        places = self.places(variable)
        return self.rows[places[-1 - offset]] if len(places) > offset else NO_ROW

    def at(self, place: int) -> Any:
        """Return the row at a place; below 0 those before the match, ``NO_ROW`` if it is not known."""
        if place >= 0:
            return self.rows[place]
        return self.before[place] if -place <= len(self.before) else NO_ROW


class RowsSoFar(MatchedRows):
    """The rows that a search has taken, and the row in question; lists are made of them only where they are asked for.

    The names of ``subsets`` are those of nodes, which have a ``-`` before that of an excluded row.

    >>> from funken.cep.buffer import Event
    >>> rows = RowsSoFar(Node(Node(None, "A", Event(0, 0, 5)), "-B", Event(1, 1, 6)), "B", 7, (), {"S": ("A", "B", "-B")})
    >>> rows.last("A"), rows.last("B"), rows.last("B", 1), rows.last("S", 2), rows.last("C") is NO_ROW
    (5, 7, 6, 5, True)
    >>> rows.names, rows.rows
    (['A', 'B', 'B'], [5, 6, 7])
    """

    __slots__ = ("own", "tail", "value")

    def __init__(
        self, tail: Node | None, own: str, value: Any, before: Sequence[Any], subsets: Mapping[str, Sequence[str]]
    ) -> None:
        self.tail = tail
        self.own = own
        self.value = value
        self.before = before
        self.subsets = subsets
        self.timestamp = 0

    def __getattr__(self, name: str) -> Any:
        if name not in {"names", "rows"}:
            raise AttributeError(name)
        path = self.tail.path() if self.tail is not None else []
        self.names = [*(node.name.removeprefix("-") for node in path), self.own]
        self.rows = [*(node.event.value for node in path), self.value]
        return self.names if name == "names" else self.rows

    def last(self, variable: str, offset: int = 0) -> Any:
        """Return the last row of a variable, or the one ``offset`` before it; ``NO_ROW`` if there is none."""
        wanted = self.subsets.get(variable) or (variable, f"-{variable}")
        if not variable or self.own in wanted:
            if not offset:
                return self.value
            offset -= 1
        node = self.tail
        while node is not None:
            if not variable or node.name in wanted:
                if not offset:
                    return node.event.value
                offset -= 1
            node = node.previous
        return NO_ROW

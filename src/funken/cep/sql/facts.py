"""What conditions of DEFINE know of the rows that a search has taken: the facts that tell two of its threads apart.

All threads of a search have taken the same rows, and differ in the variables of these alone. A condition that looks at one row of
a variable, at their number or at their sum needs no more than that of them: its *facts*. Two threads in one state whose
facts are equal have the same future, so the less preferred one is never the match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from funken.cep.buffer import Node
from funken.cep.sql.row_program import RowProgram

Column = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Fact:
    """What a condition knows of the rows of a variable or SUBSET.

    ``kind`` is ``first`` or ``last`` (the first or last ``count`` rows), ``rows`` (how many), or ``values``, ``sum``,
    ``min`` and ``max`` (how many values that are not NULL, their sum, the least and the greatest) of ``column``.
    """

    kind: str
    variable: str
    count: int = 1
    column: str = ""


class RowNode(Node):
    """A row that a variable has taken, and the facts of all rows up to it once they were asked for."""

    __slots__ = ("facts",)

    facts: tuple[Any, ...]


class Facts:
    """The facts that matter in each state of a program, and their values for a thread.

    >>> from funken.cep.buffer import Event
    >>> from funken.cep.sql.row_patterns import parse
    >>> from funken.cep.sql.row_program import compile_rows
    >>> program = compile_rows(parse("(A | B)+ C"), "(A | B)+ C")
    >>> facts = Facts(program, {"C": [Fact("last", "A"), Fact("sum", "B", column="n")]}, {}, lambda row, name: row)
    >>> a, b = Node(None, "A", Event(0, 0, 5)), Node(None, "B", Event(0, 0, 5))
    >>> facts.of(0, a), facts.of(0, b), facts.of(4, a)
    (((0,), (<class 'int'>, 0)), ((), (<class 'int'>, 5)), ())
    """

    def __init__(
        self,
        program: RowProgram,
        of_conditions: Mapping[str, Iterable[Fact]],
        subsets: Mapping[str, Sequence[str]],
        column: Column,
    ) -> None:
        every = list(dict.fromkeys(fact for facts in of_conditions.values() for fact in facts))
        index = {fact: at for at, fact in enumerate(every)}
        self._folds = [
            (frozenset(subsets.get(fact.variable) or (fact.variable, f"-{fact.variable}")), *_fold(fact, column))
            for fact in every
        ]
        self._none = tuple(none for _, none, _ in self._folds)
        #: which facts the conditions ask for that a thread in the state may still come to
        self.asked = [
            sorted({index[fact] for name in names for fact in of_conditions.get(name, ())})
            for names in _variables_ahead(program)
        ]

    def of(self, state: int, tail: Node) -> tuple[Any, ...]:
        """Return what matters of the rows that end with ``tail`` to a thread in a state."""
        values = self._of_rows(tail)
        return tuple(values[at] for at in self.asked[state])

    def _of_rows(self, tail: Node) -> tuple[Any, ...]:
        path: list[Node] = []
        node: Node | None = tail
        values = self._none
        while node is not None:
            known = getattr(node, "facts", None)
            if known is not None:
                values = known
                break
            path.append(node)
            node = node.previous
        for each in reversed(path):
            values = self._after(values, each)
            if type(each) is RowNode:
                each.facts = values
        return values

    def _after(self, values: tuple[Any, ...], node: Node) -> tuple[Any, ...]:
        try:
            return tuple(
                fold(value, node.event) if node.name in names else value
                for value, (names, _, fold) in zip(values, self._folds, strict=True)
            )
        except Exception:  # noqa: BLE001 - a condition that is evaluated with this row raises it; until then the thread is like no other
            return tuple(object() for _ in values)


def _variables_ahead(program: RowProgram) -> list[set[str]]:
    """Return, for each state, the variables whose conditions a thread in it may come to."""
    found = [{program.variables[state] for state in waits} for waits in program.waits]
    changed = True
    while changed:
        changed = False
        for names, waits in zip(found, program.waits, strict=True):
            before = len(names)
            names.update(*(found[state] for state in waits))
            changed |= len(names) != before
    return found


def _fold(fact: Fact, column: Column) -> tuple[Any, Callable[[Any, Any], Any]]:
    """Return the value of a fact without rows, and how a row changes it."""
    name, count = fact.column, fact.count

    def last(before: tuple[int, ...], event: Any) -> tuple[int, ...]:
        return (*before, event.position)[-count:]

    def first(before: tuple[int, ...], event: Any) -> tuple[int, ...]:
        return before if len(before) >= count else (*before, event.position)

    def values(before: int, event: Any) -> int:
        return before + (column(event.value, name) is not None)

    def total(before: tuple[Any, ...], event: Any) -> tuple[Any, ...]:
        value = column(event.value, name)
        if value is None:
            return before
        if before[0] is int and type(value) in {int, bool}:
            return int, before[1] + value
        # Other sums depend on their order, so they are what the rows are. Whole numbers before are one of these.
        return (None, *before, event.position)

    def extreme(before: Any, event: Any) -> Any:
        value = column(event.value, name)
        if value is None:
            return before
        hash(value)
        if before is None:
            return type(value), value
        return (type(value), value) if (value < before[1] if fact.kind == "min" else value > before[1]) else before

    kinds: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
        "last": ((), last), "first": ((), first), "rows": (0, lambda before, _: before + 1), "values": (0, values),
        "sum": ((int, 0), total), "min": (None, extreme), "max": (None, extreme),
    }  # fmt: skip
    return kinds[fact.kind]

"""What a function of ``flat_map`` gives for a record: a list of *emissions*, each with its conditions.

An emission gives one result, or one for each of some texts (``items``, of a loop or comprehension). Its ``guards`` are over the
record, argument 0, and hold one after the other before ``items`` are computed; its ``conditions`` and ``result`` are over the
record and the text, argument 1. An emission that does not ``emit`` is computed for what it may raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import Any

from funken.columnar.dependencies import Dependency, still_holds
from funken.columnar.expressions import (
    Argument,
    Constant,
    Expression,
    NotVectorizable,
    Sequence,
    add_evaluated,
    nodes_of,
)
from funken.columnar.faults import reads
from funken.columnar.typed.calls import with_wanted
from funken.columnar.typed.inference import Inference, check_kept, looked_at, typed_under
from funken.columnar.typed.operations import Sharing, may_raise
from funken.columnar.typed.values import Given, changeable, check_aliases, unified
from funken.dataclass import dataclass
from funken.expr.python.items import element_of
from funken.expr.types import Type


@dataclass(frozen=True)
class Emission:
    """Results of one place of a function; ``segment`` tells in which order places come, of a loop all have the same."""

    result: Expression
    guards: tuple[Expression, ...] = ()
    items: Expression | None = None
    conditions: tuple[Expression, ...] = ()
    segment: int = 0
    emits: bool = True
    side: str | None = None
    """The id of the side output that it gives to; ``None``: the main output."""
    outside: tuple[Expression, ...] = field(default=(), compare=False)
    """What was there before the loop over items, until it is typed: each of the results may hold the same object."""

    def parts(self) -> tuple[Expression, ...]:
        """Return all that is computed."""
        items = () if self.items is None else (self.items,)
        return *self.guards, *items, *self.conditions, self.result

    def replaced(self, of: Callable[[Expression], Expression]) -> Emission:
        """Return the emission with what a function makes of each part."""
        return replace(
            self, result=of(self.result), guards=tuple(map(of, self.guards)), conditions=tuple(map(of, self.conditions)),
            items=None if self.items is None else of(self.items),
        )  # fmt: skip


@dataclass(frozen=True)
class TracedFlatMap:
    """A function, and all it gives, in order."""

    emissions: tuple[Emission, ...]
    dependencies: tuple[Dependency, ...] = ()
    #: of a typed one, the paths of the fields of a record that it looks at
    read: frozenset[tuple[int, ...]] = field(default=frozenset(), compare=False)
    catches: bool = False
    """Whether it handles exceptions."""
    sides: tuple[tuple[str, Type], ...] = ()
    """Of a typed one, the schemas of what it gives to side outputs, by their ids."""

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Whether everything the function uses is still what it was when it was traced."""
        return still_holds(self.dependencies, target, method)

    @reads
    def typed(self, schema: Type) -> tuple[TracedFlatMap, Type]:
        """Return it for records of a schema, as kernels compute it, and the schema of its results.

        Raises ``NotVectorizable``.
        """
        typed, found = self.typed_or_nothing(schema)
        if found is None:
            raise NotVectorizable("gives no results")
        return typed, found

    @reads
    def typed_or_nothing(
        self, schema: Type, with_none: bool = False
    ) -> tuple[TracedFlatMap, Type | None]:  # fmt: skip
        """Return it as ``typed`` does; ``None`` is the schema of results that are never given.

        ``with_none``: where some results have ``None`` and others a value, the schema has both.
        """
        made: list[Emission] = []
        sharing = Sharing()
        found: dict[str | None, Type] = {}
        read: set[tuple[int, ...]] = set()
        for each in self.emissions:
            looked_into = [*each.guards, *each.conditions, each.result]
            read |= looked_at(looked_into, each.items, *_arguments(each, schema))
            typed = _typed(each, schema)
            if typed is None:
                continue
            emission, result = typed
            if emission.emits:
                given = found.setdefault(each.side, result)
                if result != given and not with_none:
                    raise NotVectorizable(f"gives sometimes {given} and sometimes {result}")
                found[each.side] = either(given, result)
            made.append(emission.replaced(sharing.of))
        if any(map(changeable, found.values())):
            check_aliases(_given(each, schema) for each in self.emissions if each.emits)
        made = _with_wanted(made)
        sides = tuple((side, schema) for side, schema in found.items() if side is not None)
        return replace(self, emissions=tuple(made), read=frozenset(read), sides=sides), found.get(None)


def either(one: Type, other: Type) -> Type:
    """Return the schema of results that have ``None`` in one of two, where the other has values; raise ``NotVectorizable``.

    >>> from funken.expr.types import FLOAT, STR, NONE, Tuple
    >>> either(Tuple((STR, FLOAT)), Tuple((STR, NONE)))
    (str, float?)
    """
    try:
        return unified(one, other)
    except NotVectorizable:
        raise NotVectorizable(f"gives sometimes {one} and sometimes {other}") from None


def _given(each: Emission, schema: Type) -> Given:
    """Return results, of which none may share an object that can be changed with others."""
    inference = Inference(_arguments(each, schema))
    return Given(
        each.result, lambda part: inference.of(part)[1], (*each.guards, *each.conditions), each.items, each.outside
    )


def _with_wanted(emissions: list[Emission]) -> list[Emission]:
    """Return emissions whose documents have the fields only that are used in any of them."""
    parts = [part for each in emissions for part in each.parts()]
    made = dict(zip(map(id, parts), with_wanted(parts), strict=True))
    return [each.replaced(lambda part: made[id(part)]) for each in emissions]


def _arguments(each: Emission, schema: Type) -> tuple[Type, ...]:
    """Return the schema of records, and that of the items that an emission loops over; none if it never comes to these."""
    under = None if each.items is None else typed_under(each.guards, each.items, schema)
    element = None if under is None else element_of(under[1][1])
    return (schema,) if element is None else (schema, element)


def _typed(each: Emission, schema: Type) -> tuple[Emission, Type] | None:
    """Return an emission as kernels compute it; ``None``: it never comes to it."""
    arguments: tuple[Type, ...] = (schema,)
    guards, items = 0, each.items
    if items is not None:
        under = typed_under(each.guards, items, schema)
        if under is None:
            return _only_reached(each, schema)
        element = element_of(under[1][1])
        if element is None:
            raise NotVectorizable(f"loops over {under[1][1]}")
        guards, items = len(under[0]), under[1][0]
        arguments = (schema, element)
    found = typed_under((*each.guards, *each.conditions), each.result, *arguments)
    if found is None:
        return _only_reached(each, schema)
    conditions, (result, kind) = found
    if items is None:
        guards = len(conditions)
    if not each.emits and not any(map(may_raise, (*conditions, result, *([] if items is None else [items])))):
        return None
    check_kept(kind)
    typed = replace(
        each,
        result=result,
        guards=tuple(conditions[:guards]),
        items=items,
        conditions=tuple(conditions[guards:]),
        outside=(),
    )
    return typed, kind


def _only_reached(each: Emission, schema: Type) -> tuple[Emission, Type] | None:
    """Return an emission of nothing for what is evaluated before the first condition that is never true: it may raise."""
    conditions = (*each.guards, *each.conditions)
    for count in range(len(conditions) - 1, 0, -1):
        in_loop = count >= len(each.guards)
        arguments = _arguments(each, schema) if in_loop else (schema,)
        if typed_under(conditions[:count], Constant(0), *arguments) is not None:
            break
    else:
        count, in_loop = 0, not each.guards
    guards, inner = conditions[: min(count, len(each.guards))], conditions[len(each.guards) : count]
    items = each.items if in_loop else None
    if not in_loop and not guards:
        return None
    return _typed(replace(each, result=Constant(0), guards=guards, items=items, conditions=inner, emits=False), schema)


def checked(dropped: tuple[Expression, ...], at: Emission, others: list[Emission]) -> Emission | None:
    """Return an emission of nothing for what was evaluated and dropped, unless the others evaluate it at that place."""
    surely: set[int] = set()
    for each in others:
        if _begins(at.guards, each.guards):
            parts = [*each.guards] if each.items is None else [*each.guards, each.items]
            if each.items is None:
                parts.append(each.result)
            elif each.segment == at.segment and _begins(at.conditions, each.conditions):
                parts += [*each.conditions, each.result]
            for part in parts:
                add_evaluated(part, surely)
    left = tuple(each for each in dropped if id(each) not in surely)
    return replace(at, result=Sequence(left, Constant(0)), emits=False) if left else None


def _begins(whole: tuple[Expression, ...], part: tuple[Expression, ...]) -> bool:
    return len(part) <= len(whole) and all(one is other for one, other in zip(part, whole, strict=False))


def paths_of(expressions: Iterable[Expression], argument: int) -> set[tuple[int, ...]]:
    """Return which fields of an argument expressions use; the empty path is all of it.

    >>> from funken.expr.types import STR
    >>> from funken.columnar.expressions import Rowwise
    >>> sorted(paths_of([Rowwise("str.lower", (Argument(0, (1,)),), STR), Argument(1)], 0))
    [(1,)]
    """
    parts = nodes_of(*expressions)
    return {each.path for each in parts if isinstance(each, Argument) and each.argument == argument}


__all__ = ["Emission", "TracedFlatMap", "checked", "either", "paths_of"]

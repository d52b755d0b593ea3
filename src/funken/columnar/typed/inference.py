"""The type of an expression, and the expression for the kernels; refuses an expression without Python's exact results.

An expression as it was traced does not know what its arguments are. Here it is given their schemas: fields get their positions,
tests of types and of ``None`` their answers, a branch that is never taken is gone, and what no kernel computes on arrays becomes
a call for each value, of a function of ``library.py``. Left out are results whose type depends on the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Several
from dataclasses import field, replace
from functools import partial
from typing import Any

from funken.columnar.calling import Dependency, still_holds
from funken.columnar.expressions import (
    COMPARISONS,
    Argument,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Loop,
    Make,
    MakeRecord,
    NotVectorizable,
    Raises,
    Rowwise,
    Sequence,
    TypeTest,
    Unpacked,
    add_evaluated,
    children,
    nodes_of,
    number_as_float,
    reads,
)
from funken.columnar.typed import values as fields
from funken.columnar.typed.calls import called, looked_up, table_schema, with_wanted
from funken.columnar.typed.operations import (
    Reads,
    Sharing,
    Typed,
    both_lists,
    listed,
    may_raise,
    unsplit,
    with_parts,
)
from funken.columnar.typed.values import (
    CHANGES,
    Given,
    after,
    changeable,
    changed_record,
    check_aliases,
    check_known,
    is_empty,
    is_none,
    kind_of_constant,
    negated,
    truth,
    unified,
)
from funken.dataclass import dataclass
from funken.expr.python.table import EMPTY, HASH, MATCH, element_of, is_table
from funken.expr.types import (
    BOOL,
    NONE,
    STR,
    ListOf,
    Optional,
    Tuple,
    Type,
    optional,
    types_in,
)

# ---- What is known not to be ``None`` where a condition is true.


def present(condition: Expression) -> tuple[tuple[Expression, ...], tuple[Expression, ...]]:
    """Return the operands that are not ``None`` where a condition is true, and where it is not."""
    match condition:
        case Invoke("is None", (operand,)):
            return (), (operand,)
        case Invoke("not", (operand,)):
            return present(operand)[::-1]
        case Invoke("bool", (operand,)):
            return present(operand)
        case TypeTest(operand, classes) if type(None) not in classes and object not in classes:
            return (operand,), ()
        case Choose() | Constant():
            return (), ()
        case Invoke(name) if name in COMPARISONS or name == "in":
            return (), ()
    return (condition,), ()


NOT_KEPT = (MATCH, optional(MATCH), ListOf(MATCH), HASH, EMPTY)
"""Types that can be changed, or do not travel, so no record holds them."""
_JOINING = ("+", "text")
_MOST_OPENED = 100
"""So many expressions are computed for each of the values that were chosen before."""


def check_kept(schema: Type) -> None:
    """Raise ``NotVectorizable`` if results have in them values that no record holds, or a dict without items."""
    for kind in NOT_KEPT:
        if kind in types_in(schema):
            raise NotVectorizable(f"makes a {kind}")
    if is_empty(schema):
        raise NotVectorizable("makes an empty dict")


class Inference:
    """Goes through one expression; a part that occurs twice in the tree is looked at once."""

    def __init__(self, arguments: tuple[Type, ...]) -> None:
        self._arguments: dict[int, Type] = dict(enumerate(arguments))
        self._known: dict[tuple[int, frozenset[int]], Typed] = {}
        self._truths: dict[tuple[int, frozenset[int]], Expression] = {}
        self._opened: dict[int, Choose] = {}
        self._parts: dict[int, frozenset[int]] = {}
        self._raising: dict[int, bool] = {}
        self._looked_at: list[Expression] = []
        #: what is known not to be ``None`` in this branch, by the number of the object that stands for all that are alike
        self._present: frozenset[int] = frozenset()
        self._sharing = Sharing()
        self.reads = Reads()
        #: the branches that are never taken, and were looked at
        self._never: set[int] = set()

    def of(self, expression: Expression) -> Typed:
        """Return an expression as kernels compute it, and its schema."""
        expression = self._sharing.of(expression)
        key = self._key(expression)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._narrowed(expression, self._of_one(expression))
        self.reads.count(known, 1)
        return known

    def _key(self, expression: Expression) -> tuple[int, frozenset[int]]:
        """Return the key of an expression's type: itself, and the parts of it that are present."""
        return id(expression), self._present & self._parts_in(expression) if self._present else self._present

    def _of_one(self, expression: Expression) -> Typed:
        try:
            return self._of(expression)
        except NotVectorizable:
            opened = self._opened_choice(expression)
            if opened is None:
                raise
        return self.of(opened)

    def _opened_choice(self, expression: Expression) -> Choose | None:
        """Return an expression of a choice as a choice of expressions; ``None`` if nothing in it is chosen.

        Paths have met there with values of two types, or with records of other names: each is computed with on its own.
        """
        if isinstance(expression, Choose):
            return None
        # What is chosen within a loop is chosen for each item.
        for part in [expression.items] if isinstance(expression, Loop) else children(expression):
            chosen = part if isinstance(part, Choose) else self._opened.get(id(part))
            if chosen is not None and len(self._opened) < _MOST_OPENED:
                one, other = (_with_part(expression, part, to) for to in (chosen.then, chosen.otherwise))
                opened = self._sharing.of(Choose(chosen.condition, one, other))
                assert isinstance(opened, Choose)
                self._opened[id(expression)] = opened
                return opened
        return None

    def look_over(self, items: Expression, number: int) -> None:
        """Note that an argument is the item of lists."""
        try:
            found = self.of(items)
        except NotVectorizable:
            self.look_at(items)
            return
        self.reads.loop(found, number)

    def _narrowed(self, expression: Expression, found: Typed) -> Typed:
        made, schema = found
        if isinstance(made, Argument) and made.argument == 0:
            self.reads.fields.add(made.path)
        elif isinstance(made, Argument):
            self.reads.item(made)
        if schema.is_optional and id(expression) in self._present:
            if isinstance(expression, Choose) and Constant(None) in (expression.then, expression.otherwise):
                made, schema = self.of(expression.otherwise if expression.then == Constant(None) else expression.then)
                found = made, schema
            if isinstance(schema, Optional):
                kind = schema.required
                return Rowwise("not none", (made,), kind), kind
        return found

    def _may_be_missing(self, expression: Expression) -> bool:
        try:
            schema = self.of(expression)[1]
        except NotVectorizable:
            return False
        self.reads.count(self.of(expression), -2)
        return schema.is_optional

    def _parts_in(self, expression: Expression) -> frozenset[int]:
        """Return the numbers of the parts of an expression: other present expressions make no difference to it."""
        found = self._parts.get(id(expression))
        if found is None:
            inner = [self._parts_in(each) for each in children(expression)]
            found = self._parts[id(expression)] = frozenset([id(expression)]).union(*inner)
        return found

    def _of(self, expression: Expression) -> Typed:
        match expression:
            case Argument(argument, path):
                if argument not in self._arguments:
                    raise NotVectorizable("uses self")
                schema = self._arguments[argument]
                for index in path:
                    schema = fields.item_schema(schema, index)
                return expression, schema
            case Constant(value):
                return expression, kind_of_constant(value)
            case Make(items):
                return self._made(items)
            case MakeRecord(form):
                return changed_record(expression, self.of) if form in CHANGES else fields.record(expression, self.of)
            case GetItem(Constant(table), index, None) if table_schema(table) is not None:
                return looked_up(table, self.of(index if isinstance(index, Expression) else Constant(index)))
            case GetItem(record, index, of):
                return fields.item(self._owner(record), record, index, of, self.of)
            case Sequence(before, result):
                made, schema = self.of(result)
                return after(self._dropped(before), made), schema
            case Rowwise(function, given, kind):
                return Rowwise(function, tuple(self.of(each)[0] for each in given), kind), kind
            case Loop():
                return self._looped(expression)
            case Raises(condition):
                return Raises(self.truth_of(condition)), NONE
            case Listed(items):
                return listed([self.of(each) for each in items])
            case Choose(condition, then, otherwise):
                return self._choice(condition, then, otherwise, self.of)
            case TypeTest(operand, classes, exact):
                return fields.type_tested(self.of(operand), classes, exact), BOOL
            case Invoke(name, given):
                return self._called(name, given)
        raise NotVectorizable(f"has no kernel for {type(expression).__name__}")

    def _called(self, name: str, given: tuple[Expression, ...]) -> Typed:
        if name != "is None":
            found = called(name, given, self.of, self.truth_of)
            if name == "len" and len(given) == 1:
                self.reads.count(self.of(given[0]), -2)
            return found
        (operand,) = given
        if isinstance(operand, Choose):
            one, other = (Invoke(name, (each,)) for each in (operand.then, operand.otherwise))
            return self.truth_of(Choose(operand.condition, one, other)), BOOL
        found = self.of(operand)
        self.reads.count(found, -1)
        return self._is_none(found), BOOL

    def _dropped(self, before: tuple[Expression, ...]) -> list[Expression]:
        found = [self.of(_without_value(each)) for each in before]
        for each in found:
            self.reads.count(each, -1)  # what is in it does not matter
        return [made for made, _ in found if self._raises(unsplit(made))]

    def _owner(self, record: Expression) -> Typed | None:
        return None if isinstance(record, Constant) and is_table(record.value) else self.of(record)

    def _made(self, items: tuple[Expression, ...]) -> Typed:
        made: list[Typed] = []
        for item in items:
            made += fields.spread(self.of(item.record)) if isinstance(item, Unpacked) else [self.of(item)]
        if not made:
            raise NotVectorizable("makes an empty tuple")
        return Make(tuple(each for each, _ in made)), Tuple(schema for _, schema in made)

    def _looped(self, loop: Loop) -> Typed:
        items, schema = self.of(loop.items)
        element = element_of(schema)
        if element is None:
            raise NotVectorizable(f"loops over {schema}")
        self._arguments[loop.number] = element
        self.reads.loop((items, schema), loop.number)
        found = self.under(loop.conditions, loop.result)
        if found is None:
            raise NotVectorizable("has a loop that never gives anything")
        conditions, (made, result) = found
        check_kept(result)
        return Loop(items, loop.number, tuple(conditions), made, result), ListOf(result)

    # ---- decisions

    def truth_of(self, expression: Expression) -> Expression:
        """Return the truth of an expression, as kernels compute it: a bool."""
        expression = self._sharing.of(expression)
        key = self._key(expression)
        if key not in self._truths:
            self._truths[key] = self._truth_of(expression)
        return self._truths[key]

    def _truth_of(self, expression: Expression) -> Expression:
        match expression:
            case Invoke("bool", (operand,)):
                return self.truth_of(operand)
            case Invoke("not", (operand,)):
                return negated(self.truth_of(operand))
            case Choose(condition, then, otherwise):
                return self._choice(condition, then, otherwise, lambda each: (self.truth_of(each), BOOL))[0]
            case Sequence(before, result):
                return after(self._dropped(before), self.truth_of(result))
        found = self.of(expression)
        self.reads.count(found, -1)  # whether there are items, whatever they are
        return truth(*found)

    def _choice(
        self, condition: Expression, then: Expression, otherwise: Expression, of: Callable[[Expression], Typed]
    ) -> Typed:
        decides = self.truth_of(condition)
        if isinstance(decides, Constant):
            self.look_at(otherwise if decides.value else then)
            return of(then if decides.value else otherwise)
        taken, other = present(condition)
        if isinstance(then, Raises) or isinstance(otherwise, Raises):
            left, known = (otherwise, other) if isinstance(then, Raises) else (then, taken)
            made, schema = self._within(known, partial(of, left))
            return after([Raises(decides if isinstance(then, Raises) else negated(decides))], made), schema
        one, two = both_lists(self._within(taken, partial(of, then)), self._within(other, partial(of, otherwise)))
        if one == (Constant(True), BOOL) and two == (Constant(False), BOOL):
            return decides, BOOL
        if one == (Constant(False), BOOL) and two == (Constant(True), BOOL):
            return negated(decides), BOOL
        schema = fields.unified(one[1], two[1])
        for kind in types_in(schema):
            check_known(kind)
        lazy = any(
            self._raises(made) or (kind == STR and isinstance(made, Invoke) and made.name in _JOINING)
            for made, kind in (one, two)
        )
        return Choose(decides, one[0], two[0], lazy, not self._raises(decides)), schema

    def _raises(self, made: Expression) -> bool:
        self._looked_at.append(made)  # another one would get its number
        return may_raise(made, self._raising)

    def look_at(self, never: Expression) -> None:
        """Note the reads of a branch that is never taken: with an unexpected null in a record, it may be."""
        if id(never) in self._never:
            return  # with branches in branches, each would be looked at twice as often as the one around it
        self._never.add(id(never))
        try:
            made = self.of(never)[0]
        except NotVectorizable:
            # A field that the schema has not: who has it is read whole.
            for each in () if isinstance(never, GetItem) else children(never):
                self.look_at(each)
            return
        for each in nodes_of(made):
            if isinstance(each, Argument):
                self.reads.all_of(each, self._arguments)

    def under(
        self, conditions: tuple[Expression, ...], expression: Expression
    ) -> tuple[list[Expression], Typed] | None:
        """Return conditions as kernels compute them, without those that are always true, and an expression below them."""
        if not conditions:
            return [], self.of(expression)
        decides = self.truth_of(conditions[0])
        if isinstance(decides, Constant):
            return self.under(conditions[1:], expression) if decides.value else None
        rest: Any = partial(self.under, conditions[1:], expression)
        found: Any = self._within(present(conditions[0])[0], rest)
        return None if found is None else ([decides, *found[0]], found[1])

    def _within(self, present: tuple[Expression, ...], typed_branch: Callable[[], Typed]) -> Typed:
        if not present:
            return typed_branch()
        present = tuple(each for each in present if self._may_be_missing(each))
        if not present:
            return typed_branch()
        outer = self._present
        known = {id(self._sharing.of(each)) for each in present}
        self._present |= known
        try:
            return typed_branch()
        finally:
            self._present = outer

    @staticmethod
    def _is_none(operand: Typed) -> Expression:
        made, schema = number_as_float(*operand)
        check_known(schema)
        if schema.is_optional:
            return is_none(made)
        return after([made], Constant(schema == NONE))


def _with_part(expression: Expression, part: Expression, to: Expression) -> Expression:
    return with_parts(expression, lambda each: to if each is part else each)


def _without_value(expression: Expression) -> Expression:
    """Return the parts that raise where an expression does; the values of a choice may be of two schemas."""
    match expression:
        case Choose(condition, then, otherwise):
            one, other = (Sequence((each,), Constant(None)) for each in (then, otherwise))
            return Choose(condition, one, other)
    return expression


# ---- Expressions for arguments whose schemas are known: as kernels compute them, with the schemas of their
# results.


def typed(expression: Expression, *arguments: Type) -> Typed:
    """Return an expression for arguments of these schemas, and the schema of its results; raise ``NotVectorizable``.

    >>> from funken.expr.types import STR
    >>> from funken.columnar.tracing import trace
    >>> typed(trace(lambda text: text.lower(), None, 1).result, STR)
    (Rowwise(function='str.lower', arguments=(Argument(argument=0, path=()),), kind=str), str)
    """
    return typed_and_read(expression, *arguments)[0]


def typed_and_read(expression: Expression, *arguments: Type) -> tuple[Typed, frozenset[tuple[int, ...]]]:
    """Return the result of ``typed``, and the paths of the first argument's fields that it read, for constants too.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.tracing import trace
    >>> typed_and_read(trace(lambda pair: pair[1] is None, None, 1).result, Tuple((INT, STR)))
    ((Constant(value=False), bool), frozenset({(1,)}))
    """
    inference = Inference(arguments)
    made, schema = inference.of(expression)
    if isinstance(made, Raises):
        raise NotVectorizable("always raises an exception")
    check_kept(schema)
    if changeable(schema):
        check_aliases([Given(expression, lambda each: inference.of(each)[1])])
    return (with_wanted([Sharing().of(made)])[0], schema), inference.reads.paths(
        arguments[0]
    ) if arguments else frozenset()


def typed_under(
    conditions: Several[Expression], expression: Expression, *arguments: Type
) -> tuple[list[Expression], Typed] | None:
    """Return conditions, tested one after the other, and an expression where they are true; ``None``: they never are."""
    return Inference(arguments).under(tuple(conditions), expression)


def looked_at(
    expressions: Several[Expression], items: Expression | None, *arguments: Type
) -> frozenset[tuple[int, ...]]:
    """Return the paths of the fields of the first argument that expressions may look at, whether they come to it or not.

    ``items`` are the lists whose items are the second argument.
    """
    inference = Inference(arguments)
    if items is not None:
        inference.look_over(items, 1)
    for each in expressions:
        inference.look_at(each)
    return inference.reads.paths(arguments[0])


# ---- What a function of ``flat_map`` gives for a record: a list of *emissions*, each with its conditions.
#
# An emission gives one result, or one for each of some texts (``items``, of a loop or comprehension). Its
# ``guards`` are over the record, argument 0, and hold one after the other before ``items`` are computed; its
# ``conditions`` and ``result`` are over the record and the text, argument 1. An emission that does not ``emit`` is
# computed for what it may raise.


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
    """The objects before the loop over items, until it is typed: each of the results may hold the same object."""

    def parts(self) -> tuple[Expression, ...]:
        """Return all that is computed."""
        items = () if self.items is None else (self.items,)
        return *self.guards, *items, *self.conditions, self.result

    def replaced(self, of: Callable[[Expression], Expression]) -> Emission:
        """Return the emission with a function's result for each part."""
        return replace(
            self, result=of(self.result), guards=tuple(map(of, self.guards)), conditions=tuple(map(of, self.conditions)),
            items=None if self.items is None else of(self.items),
        )  # fmt: skip


@dataclass(frozen=True)
class TracedFlatMap:
    """A function, and all its results, in order."""

    emissions: tuple[Emission, ...]
    dependencies: tuple[Dependency, ...] = ()
    #: of a typed one, the paths of the fields of a record that it looks at
    read: frozenset[tuple[int, ...]] = field(default=frozenset(), compare=False)
    catches: bool = False
    """True if it handles exceptions."""
    sides: tuple[tuple[str, Type], ...] = ()
    """Of a typed one, the schemas of its side outputs, by their ids."""

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Return True if everything the function uses is as it was when it was traced."""
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
    """Return an emission as kernels compute it; ``None``: it never takes place."""
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
    """Return an emission of nothing for the parts before the first condition that is never true: they may raise."""
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
    """Return an emission of nothing for dropped expressions, unless the others evaluate them at that place."""
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
    """Return the fields of an argument that expressions use; the empty path is all of it.

    >>> from funken.expr.types import STR
    >>> from funken.columnar.expressions import Rowwise
    >>> sorted(paths_of([Rowwise("str.lower", (Argument(0, (1,)),), STR), Argument(1)], 0))
    [(1,)]
    """
    parts = nodes_of(*expressions)
    return {each.path for each in parts if isinstance(each, Argument) and each.argument == argument}

"""From a function of ``flat_map`` to its emitted records, by reading its bytecode: nothing of the function runs.

Functions may return a tuple or list of results, texts (``line.split()``), ``None`` or a comprehension over texts, and generators
may yield, in loops over texts or over a tuple too. A loop over texts is followed once, for any of them: what is assigned in it
has no value before and after it. A comprehension is a function of its own up to Python 3.11, and a loop from 3.12 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from itertools import count
from types import CodeType, FunctionType
from typing import Any

from funken.columnar.bytecode import Operation, always_raises, ends_loops_twice, is_generator, is_plain_generator
from funken.columnar.calling import Marker, Method, Outside, dropping, expression_on, known_target
from funken.columnar.expressions import (
    ALWAYS,
    NEVER,
    Argument,
    Choose,
    Constant,
    Expression,
    Invoke,
    Loop,
    Make,
    NotVectorizable,
    PathCondition,
    PathConditions,
    Raises,
    Sequence,
    Unpacked,
    reads,
)
from funken.columnar.recurrence import conditions_of, result_of
from funken.columnar.stack import Agenda, Stack, State
from funken.columnar.tracing import (
    Convention,
    Traced,
    Tracer,
    Walk,
    function_of,
    items_displayed,
    operations_of,
    with_method,
)
from funken.columnar.typed.inference import Emission, TracedFlatMap, checked
from funken.columnar.typed.operations import rewriter
from funken.expr.types import INT, NONE, Tuple, Type

_ITEM = Argument(1)
_THROUGH = 1 << 30
"""The place of states that are through with the body of a loop: behind all others."""


@reads
def trace_flat_map(target: Any, method: str | None, schema: Type | None = None) -> TracedFlatMap:
    """Return the results of a function of one record, of a schema if known; raise ``NotVectorizable`` with the reason.

    >>> found = trace_flat_map(lambda line: line.split(","), None)
    >>> [(type(each.items).__name__, each.result) for each in found.emissions]
    [('Invoke', Argument(argument=1, path=()))]
    >>> trace_flat_map(lambda n: zip(n), None)
    Traceback (most recent call last):
    ...
    funken.columnar.expressions.NotVectorizable: calls zip()
    """
    items = known_target(target) if method is None else None
    if items is not None:
        return TracedFlatMap((Emission(_ITEM, items=items, segment=1),))
    return trace_by(_FLAT_MAP, target, method, schema)


@reads
def trace_by(convention: Convention, target: Any, method: str | None, schema: Type | None = None) -> TracedFlatMap:
    """Return the results of a function that is called by a convention; raise ``NotVectorizable`` with the reason.

    >>> found = trace_by(MAYBE, lambda n: (n, 10 // n) if n else None, None)
    >>> [each.guards for each in found.emissions if each.emits]
    [(Argument(argument=0, path=()),)]
    >>> [each.result for each in trace_by(JOIN, lambda left, right, ctx: [left, ctx.get_right_timestamp()], None).emissions]
    [Argument(argument=0, path=(0,)), Argument(argument=0, path=(3,))]
    >>> trace_by(JOIN, lambda left, right, ctx: ctx.output(None, left), None)
    Traceback (most recent call last):
    ...
    funken.columnar.expressions.NotVectorizable: asks its context for output()
    """
    function = function_of(target, method)
    tracer = FlatMapTracer(function, convention, method is not None, target)
    return with_method(tracer.of(schema).read(), function, method)


class FlatMapTracer(Tracer):
    """Follows one function; where it is, in which loop, and under which conditions, is an ``Emission`` to be."""

    meets = True
    """True if states that come to one operation become one."""

    def __init__(self, function: FunctionType, convention: Convention, bound: bool, target: Any = None) -> None:
        if convention.gives != "several" and is_generator(function.__code__):
            raise NotVectorizable("is a generator, or has variable arguments")
        super().__init__(function, convention, bound, target=target)
        #: the results of the function and all it calls, in order
        self.emissions: list[Emission] = []
        self._segments = count(1)

    def read(self) -> TracedFlatMap:
        """Follow the function from its beginning."""
        EmissionWalk(self).follow(State(0, Stack(self), self._start))
        return TracedFlatMap(tuple(self.emissions), tuple(self._dependencies.values()), catches=self._steps.catches)

    def given(self) -> list[Expression]:
        """Return the results so far."""
        return [each.result for each in self.emissions]

    @staticmethod
    def _check(code: CodeType) -> None:
        if not is_plain_generator(code):
            raise NotVectorizable("has variable arguments")

    def _step(self, operation: Operation, state: State) -> None:
        stack = state.stack
        if self.convention.sides and (operation.name, operation.argument) == ("BUILD_TUPLE", 2):
            tag = self._tag(stack.item(2))
            if tag is not None:
                value = stack.pop()
                stack.discard()
                stack.push(Marker("side", "a pair of a tag and a value", (tag, value)))
                return
        super()._step(operation, state)

    def _tag(self, found: Any) -> str | None:
        """Return the id of a tag that comes from outside of the function; ``None`` if it is something else."""
        if not isinstance(found, Outside) or not isinstance(tag := getattr(found.value, "tag_id", None), str):
            return None
        self.depend(found.kind, found.name, found.value)
        return tag

    # ---- for those that know more operations

    def leaves(self, walk: EmissionWalk, operation: Operation, state: State) -> list[State] | None:
        """Do an operation that only this reader knows; return the states behind it, ``None`` if it is no such operation."""
        return None

    def chooses(self, walk: EmissionWalk, name: str, there: int, state: State) -> bool:
        """Go over a branch that is no more than a choice of two values; return whether it is one."""
        return False

    # ---- what comes of it

    def segment(self) -> int:
        """Return the number of the next place."""
        return next(self._segments)

    def emit(self, emission: Emission) -> None:
        """Add results."""
        self.emissions.append(emission if emission.items is not None else replace(emission, segment=self.segment()))

    def returned(self, value: Any, at: Emission, state: State) -> None:
        """Emit the function's result."""
        dropped = state.dropped
        match self.convention.gives:
            case "several":
                self.give(value, at, state)
            case "truth":
                truth = expression_on(value)
                self.emit(replace(under(at, truth), result=self.convention.arguments[0]))
                dropped = dropping(dropped, truth)
            case "one":
                self.give_one(value, at)
            case _:
                self._give_choice(expression_on(value), at)
        self.end(dropped, at)

    def _give_choice(self, value: Expression, at: Emission) -> None:
        match value:
            case Choose(condition, then, otherwise):
                self._give_choice(then, under(at, condition))
                self._give_choice(otherwise, under(at, Invoke("not", (condition,))))
            case Sequence(before, result):
                self._give_choice(result, at)
                self.end(before, at)
            case _ if value != Constant(None):
                self.give_one(value, at)

    def give(self, value: Any, at: Emission, state: State) -> None:
        """Emit all that is in a value."""
        if isinstance(value, Marker) and value.kind == "several":
            self._give_all(value.value, at, state.objects())
            return
        if isinstance(value, Marker) and value.kind == "list":
            value = Make(tuple(value.value))
        if isinstance(value, Marker) and value.kind == "generator":
            value = value.value
        if isinstance(value, Make):
            for each in value.items:
                if isinstance(each, Unpacked):
                    raise NotVectorizable("returns a display with *")
                self.give_one(each, at)
        elif value != Constant(None):
            if at.items is not None:
                raise NotVectorizable("has a loop in a loop")
            self.emit(replace(at, items=expression_on(value), result=_ITEM, segment=self.segment()))

    def _give_all(self, results: Loop | list[Expression], at: Emission, outside: tuple[Expression, ...]) -> None:
        """Emit the results of a comprehension: of its loop, or of each item of a display."""
        if isinstance(results, list):
            for each in results:
                self.give_one(result_of(each), reduce(under, conditions_of(each), at))
            return
        number = results.number
        of = rewriter(
            lambda each: (
                (replace(each, argument=1) if each.argument == number else each) if isinstance(each, Argument) else None
            )
        )
        base = replace(at, items=results.items, segment=self.segment(), outside=outside)
        self.emit(replace(base, conditions=tuple(map(of, results.conditions)), result=of(results.result)))

    def give_one(self, value: Any, at: Emission) -> None:
        """Emit one result."""
        side = None
        if isinstance(value, Marker) and value.kind == "side":
            side, value = value.value
        self.emit(replace(at, result=expression_on(value), side=side))

    def give_to_side(self, stack: Stack, at: Emission) -> None:
        """Call the context's method that emits a value to a side output."""
        tag = self._tag(stack.item(2))
        if tag is None:
            raise NotVectorizable("gives a side output whose tag is not constant")
        value = stack.pop()
        for _ in range(3):
            stack.discard()
        self.give_one(Marker("side", "", (tag, value)), at)

    def end(self, dropped: tuple[Expression, ...], at: Emission) -> None:
        """End a path."""
        self._steps.end()
        check = checked(dropped, at, self.emissions)
        if check is not None:
            self.emissions.append(check)


class _Guards:
    """The guards of emissions behind ``base``, by the conditions of their paths."""

    def __init__(self, base: Emission, conditions: PathConditions[Expression]) -> None:
        self._conditions = conditions
        self._at: dict[int, Emission] = {id(ALWAYS): base}
        self._guards: dict[tuple[int, bool], Expression] = {}

    def at(self, when: PathCondition) -> Emission:
        """Return the emission of a path: one object for all paths of one condition, with the same guards."""
        found = self._at.get(id(when))
        if found is None:
            found = self._at[id(ALWAYS)]
            for guard in self._conjunction(when):
                found = under(found, guard)
            self._at[id(when)] = found
        return found

    def _conjunction(self, when: PathCondition) -> Iterator[Expression]:
        while when is not ALWAYS:
            assert when.holds is not None
            assert when.fails is not None
            if NEVER not in (when.holds, when.fails):
                yield self._expression(when)
                return
            yield self._guard(when.test, when.fails is NEVER)
            when = when.holds if when.fails is NEVER else when.fails

    def _guard(self, test: int, holds: bool) -> Expression:
        expression = self._conditions.tests[test]
        return self._guards.setdefault((test, holds), expression if holds else Invoke("not", (expression,)))

    def _expression(self, when: PathCondition) -> Expression:
        if when is ALWAYS or when is NEVER:
            return Constant(when is ALWAYS)
        assert when.holds is not None
        assert when.fails is not None
        return Choose(self._conditions.tests[when.test], self._expression(when.holds), self._expression(when.fails))


class EmissionWalk(Walk):
    """Follows a function that emits results, its callee, or the body of a loop, whose emissions begin as ``base``.

    ``around`` is the way through what this is in. What a function that is called returns is put into ``returned``, with the state
    behind it.
    """

    _reader: FlatMapTracer

    def __init__(
        self, reader: FlatMapTracer, around: EmissionWalk | None = None, base: Emission | None = None, at: int | None = None,
        returned: list[tuple[State, Any]] | None = None,
    ) -> None:  # fmt: skip
        shared = around if base is None else None
        agenda = Agenda(reader._steps, reader.meets, None if shared is None else shared.agenda)
        super().__init__(reader, at, agenda=agenda)
        begin = Emission(Constant(None)) if base is None else base
        self._guards: _Guards = _Guards(begin, agenda.conditions) if shared is None else shared._guards
        self._returned = returned

    def at(self, state: State) -> Emission:
        """Return the emission of a state."""
        return self._guards.at(state.when)

    # ---- where paths end

    def _ends_at(self, number: int) -> bool:
        if number in (self._at, _THROUGH):
            return True
        if self._at is not None and not self._at < number < self.operations[self._at].argument:
            raise NotVectorizable("leaves a loop early")
        return False

    def _end_body(self, state: State) -> None:
        if state.number != _THROUGH:
            self.agenda.add(state, _THROUGH)
        else:
            self._reader.end(state.dropped, self.at(state))

    def _raises_at(self, number: int) -> bool:
        return self._reader.raises and always_raises(self.operations, number)

    def _raise(self, state: State) -> None:
        self._reader.end((*state.dropped, Raises()), self.at(state))

    def _return(self, state: State) -> None:
        if self._at is not None:
            raise NotVectorizable("leaves a loop early")
        value = state.stack.pop()
        if self._returned is not None:
            self._returned.append((state, value))
        elif is_generator(self._reader._code):
            self._reader.end(dropping(state.dropped, value), self.at(state))
        else:
            self._reader.returned(value, self.at(state), state)

    # ---- from one place to the next

    def _leaves(self, operation: Operation, state: State) -> bool:
        states = self._reader.leaves(self, operation, state)
        for each in states or ():
            self.agenda.add(each, each.number)
        return states is not None

    def _branch(self, name: str, there: int, state: State) -> None:
        if not self._reader.chooses(self, name, there, state):
            super()._branch(name, there, state)

    def call(self, code: CodeType, variables: dict[str, Any], state: State) -> list[tuple[State, Any]]:
        """Follow a function that is called in a state; return the states where it ends, and its results there."""
        reader, found = self._reader.reading(operations_of(code), code), list[tuple[State, Any]]()
        walk = EmissionWalk(reader, self, returned=found)
        walk.follow(State(0, Stack(reader), variables, state.dropped, state.when))
        return found

    # ---- loops, and what they give

    def _gives(self, operation: Operation, stack: Stack) -> bool:
        name, argument = operation.name, operation.argument
        if name == "CALL":
            return argument == 2 and stack.peek(3, "output")
        return name in ("YIELD_VALUE", "GET_YIELD_FROM_ITER")

    def _give(self, operation: Operation, state: State) -> None:
        name, stack, at = operation.name, state.stack, self.at(state)
        if name == "CALL":
            self._reader.give_to_side(stack, at)
        elif name == "GET_YIELD_FROM_ITER":
            self._reader.give(stack.pop(), at, state)
            state.number = self.after_yield_from(state.number)
        else:
            self._reader.give_one(stack.pop(), at)
        stack.push(Constant(None))

    def after_yield_from(self, number: int) -> int:
        """Return the place behind ``yield from``: the end of its loop of instructions."""
        if [each.name for each in self.operations[number : number + 2]] != ["LOAD_CONST", "SEND"]:
            raise NotVectorizable("yields in a way that is not known")
        target: int = self.operations[number + 1].argument
        return target

    def _is_given(self, number: int, loop: list[Operation], makes: str) -> bool:
        """Return True if the list of a comprehension is the result itself: it has one loop and no other use."""
        if self._reader.convention.gives != "several" or sum(each.name == "FOR_ITER" for each in loop) > 1:
            return False
        while self.operations[number].name in ("END_FOR", "SWAP", "STORE_FAST"):
            # In 3.13, what is popped here is the iterator.
            number += 1 + (self.operations[number].name == "END_FOR" and ends_loops_twice())
        return makes == "BUILD_LIST" and self.operations[number].name in ("RETURN_VALUE", "GET_YIELD_FROM_ITER")

    def _shown(self, iterator: Marker) -> list[Expression] | None:
        return items_displayed(iterator)

    def _loop_over(self, here: int, stop: int, iterator: Marker, state: State) -> None:
        """Follow the body once for any item of a list; a loop that emits nothing may carry variables."""
        reader, at, variables = self._reader, self.at(state), state.variables
        inner = self.operations[here + 1 : stop]
        stored = {each.argument for each in inner if each.name in ("STORE_FAST", "STORE_DEREF")}
        if at.items is not None:
            raise NotVectorizable("has a loop in a loop")
        if self._only_carries(inner, stored, iterator, variables):
            self._carry(here, stop, iterator, state)
            return
        items = iterator.value
        texts = expression_on(items.value if isinstance(items, Marker) and items.kind == "generator" else items)
        known = {name: found for name, found in variables.items() if name not in stored}
        base = replace(at, items=texts, segment=reader.segment(), outside=state.objects())
        before, stack = len(reader.emissions), state.stack.copy()
        stack.push(iterator)
        stack.push(_ITEM)
        with reader._steps.inside():
            EmissionWalk(reader, self, base, here).follow(State(here + 1, stack, dict(known)))
        state.variables = known
        if len(reader.emissions) == before:
            state.dropped = (*state.dropped, *dropping((), texts))

    @staticmethod
    def _only_carries(inner: list[Operation], stored: set[str], iterator: Marker, variables: dict[str, Any]) -> bool:
        """Return True if a loop over a list emits no results, and changes variables that are there before it."""
        if isinstance(iterator.value, Marker | Make) or any(
            each.name in ("YIELD_VALUE", "GET_YIELD_FROM_ITER", "RETURN_VALUE") for each in inner
        ):
            return False
        lists = {name for name, value in variables.items() if isinstance(value, Marker) and value.kind == "list"}
        appended = {each.argument for each in inner if each.name == "LOAD_FAST"} & lists
        return bool(appended or stored & variables.keys())


def under(at: Emission, condition: Expression) -> Emission:
    """Return an emission, or one to be, with one more condition."""
    if at.items is None:
        return replace(at, guards=(*at.guards, condition))
    return replace(at, conditions=(*at.conditions, condition))


# ---- How functions are called that are no ``map`` or ``flat_map``: of joins, windows, process functions, sinks.
#
# Each convention says what the arguments are, as fields of the one record that emissions are over, and what a
# context answers; anything else that is asked of it has no kernel.


_FIELDS = Argument(0, (0,)), Argument(0, (1,)), Argument(0, (2,)), Argument(0, (3,)), Argument(0, (4,))
_CONTEXT = Marker("context", "its context")

_FLAT_MAP = Convention((Argument(0),), gives="several", changes=True)
MAYBE = Convention((Argument(0),), gives="one or none", changes=True)
"""Of a map in front of filters that drop ``None``: only they see it."""
PAIR, PAIRS = (Convention(_FIELDS[:2], gives="one"), Convention(_FIELDS[:2], gives="several"))
"""Of a record (left record, right record), one result or several."""
JOIN = Convention(
    (*_FIELDS[:2], _CONTEXT),
    {
        ("context", "get_left_timestamp"): _FIELDS[2],
        ("context", "get_right_timestamp"): _FIELDS[3],
        ("context", "get_timestamp"): _FIELDS[4],
        ("context", "timestamp"): _FIELDS[4],
    },
    gives="several",
)
"""Of a record (left record, right record, and three times: of both, and of the pair)."""
PROCESS = Convention(
    (_FIELDS[0], _CONTEXT),
    {("context", "timestamp"): _FIELDS[1], ("context", "output"): Method("output", "a method of its context")},
    gives="several",
    sides=True,
)
"""Of a record (record, timestamp)."""
BUCKET = Convention((Argument(0), _CONTEXT), {("context", "timestamp"): Argument(1)})
"""Of a record and its timestamp (ms)."""


def pair_schema(left: Type, right: Type) -> Type:
    """Return the schema of a pair: both records, their timestamps, and that of the pair."""
    return Tuple((left, right, INT, INT, INT))


def window_function(keyed: bool, context: bool, bounds: bool, many: bool = False) -> Convention:
    """Return the convention of a window function, of a record (key, result, window), the window with a start and an end.

    ``keyed``: its first argument is the key; ``context``: it gets a context, not the window; ``bounds``: the window has a start
    and an end; ``many``: it gets all records of the window, which are its result. Else it sees a list of the one result.

    >>> found = trace_by(window_function(True, False, True), lambda key, window, counts: [(key, n) for n in counts], None)
    >>> [each.result for each in found.emissions]
    [Make(items=(Argument(argument=0, path=(0,)), Argument(argument=0, path=(1,))))]
    """
    key, result, there = _FIELDS[:3]
    window: Any = there if bounds else Marker("window", "its window")
    elements: Any = result if many else Marker("list", "a list", [result])
    last = Invoke("-", (Argument(0, (2, 1)), Constant(1)))
    methods = {("context", "window"): window, (there, "max_timestamp"): last}
    return Convention((*[key] * keyed, _CONTEXT if context else window, elements), methods, gives="several")


@reads
def drops_none(condition: Traced) -> bool:
    """Return True if the condition of a filter is never true of ``None``, whatever values its variables have.

    >>> from funken.columnar.tracing import trace
    >>> [drops_none(trace(each, None, 1)) for each in (lambda r: r is not None, lambda r: r, lambda r: r is None)]
    [True, True, False]
    """
    if any(each.may_change for each in condition.dependencies):
        return False
    try:
        return condition.condition(NONE).result == Constant(False)
    except NotVectorizable:
        return False

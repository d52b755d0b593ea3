"""From a function of ``flat_map`` to what it gives, by reading its bytecode: nothing of the function runs.

Functions may return a tuple or list of results, texts (``line.split()``), ``None`` or a comprehension over texts, and generators
may yield, in loops over texts or over a tuple too. A loop over texts is followed once, for any of them: what is assigned in it
has no value before and after it. A comprehension is a function of its own up to Python 3.11, and a loop from 3.12 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import CodeType
from typing import Any

from funken.columnar.bytecode import (
    Operation,
    always_raises,
    ends_loops_twice,
    is_generator,
    is_plain_generator,
)
from funken.columnar.calling.markers import Marker, expression_on
from funken.columnar.calling.targets import known_target
from funken.columnar.expressions import (
    Argument,
    Choose,
    Constant,
    Expression,
    Make,
    NotVectorizable,
    Raises,
    Unary,
    Unpacked,
)
from funken.columnar.faults import reads
from funken.columnar.flat_maps.code import Code, LoopAround, Then, Variables
from funken.columnar.flat_maps.emissions import Emission, TracedFlatMap, checked
from funken.columnar.lists.comprehensions import dropping, operations_of
from funken.columnar.meeting import Agenda, State, labels_of
from funken.columnar.stack import Stack
from funken.columnar.tracing import Tracer, function_of, with_method
from funken.expr.paths import ALWAYS, NEVER, PathCondition
from funken.expr.types import Type

_ITEM = Argument(1)
_THROUGH = 1 << 30
"""Where states are that are through with the body of a loop: behind all others."""


@reads
def trace_flat_map(target: Any, method: str | None, schema: Type | None = None) -> TracedFlatMap:
    """Return what a function of one record, of a schema if it is known, gives; raise ``NotVectorizable`` with the reason.

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
    function = function_of(target, method)
    traced = FlatMapTracer(function, 1, bound=method is not None, target=target).of(schema, changes=True).read()
    return with_method(traced, function, method)


class _Run:
    """A function, or the body of a loop, that is followed: ``at`` are the conditions around it."""

    def __init__(
        self, code: Code, at: Emission, loop: LoopAround | None, agenda: Agenda, labels: frozenset[int]
    ) -> None:  # fmt: skip
        self.code = code
        self.loop = loop
        self.agenda = agenda
        self.labels = labels
        self._at: dict[int, Emission] = {id(ALWAYS): at}
        self._guards: dict[tuple[int, bool], Expression] = {}

    def at_of(self, when: PathCondition) -> Emission:
        """Return the emission to be of a path: one object for all paths of one condition, with the same guards."""
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
        expression = self.agenda.conditions.tests[test]
        return self._guards.setdefault((test, holds), expression if holds else Unary("not", expression))

    def _expression(self, when: PathCondition) -> Expression:
        if when is ALWAYS or when is NEVER:
            return Constant(when is ALWAYS)
        assert when.holds is not None
        assert when.fails is not None
        sides = self._expression(when.holds), self._expression(when.fails)
        return Choose(self.agenda.conditions.tests[when.test], *sides)


class FlatMapTracer(Tracer):
    """Follows one function; where it is, in which loop, and under which conditions, is an ``Emission`` to be."""

    meets = True
    """Whether states that come to one operation become one."""

    def read(self) -> TracedFlatMap:
        """Follow the function from its beginning."""
        self._found: list[Emission] = []
        self._segments = 0
        self._readers: dict[int, FlatMapTracer] = {}
        code = self._code(self._function.__code__)
        self._run(code, 0, Stack(self), self._start, (), Emission(Constant(None)), None)
        return TracedFlatMap(tuple(self._found), tuple(self._dependencies.values()), catches=self._steps.catches)

    def given(self) -> list[Expression]:
        """Return the results so far."""
        return [each.result for each in self._found]

    @staticmethod
    def _check(code: CodeType) -> None:
        if not is_plain_generator(code):
            raise NotVectorizable("has variable arguments")

    @staticmethod
    def _code(code: CodeType, comprehension: bool = False) -> Code:
        found = operations_of(code)
        return Code(code, found, is_generator(code), comprehension)

    def _reader(self, code: Code) -> FlatMapTracer:
        found = self._readers.get(id(code.of))
        if found is None:
            found = self._readers[id(code.of)] = self.reading(code.operations, code.of)
        return found

    # ---- the way through

    def _goes_elsewhere(
        self, code: Code, number: int, operation: Operation, stack: Stack, variables: Variables,
        dropped: tuple[Expression, ...], at: Emission, loop: LoopAround | None,
    ) -> bool:  # fmt: skip
        """Whether a subclass has followed an operation, and all that comes behind it."""
        return False

    def _run(
        self, code: Code, number: int, stack: Stack, variables: Variables, dropped: tuple[Expression, ...], at: Emission,
        loop: LoopAround | None,
    ) -> None:  # fmt: skip
        """Follow the function, or the body of a loop, from an operation to its end."""
        agenda = Agenda(self._steps, self.meets)
        run = _Run(code, at, loop, agenda, labels_of(code.operations))
        run.agenda.add(State(number, stack, variables, dropped), number)
        while states := run.agenda.take():
            for state in states:
                self._go(run, state)

    def _go(self, run: _Run, state: State) -> None:
        """Follow a state to the next branch, to where paths meet, or to the end."""
        code, loop, number, at = run.code, run.loop, state.number, run.at_of(state.when)
        if loop is not None and number == _THROUGH:
            loop.then(state.variables, state.dropped, at)
            return
        if self.raises and always_raises(code.operations, number):
            self._end((*state.dropped, Raises()), at)
            return
        stack, variables, dropped, first = state.stack.copy(), dict(state.variables), state.dropped, True
        while True:
            if loop is not None and number == loop.at:
                run.agenda.add(replace(state, stack=stack, variables=variables, dropped=dropped), _THROUGH)
                return
            if loop is not None and not loop.at < number < loop.stop:
                raise NotVectorizable("leaves a loop early")
            if not first and number in run.labels:
                run.agenda.add(replace(state, stack=stack, variables=variables, dropped=dropped), number)
                return
            first = False
            self._steps.count()
            operation = code.operations[number]
            name, argument = operation.name, operation.argument
            number += 1
            if name == "RETURN_VALUE":
                if loop is not None:
                    raise NotVectorizable("leaves a loop early")
                if code.back is not None:
                    code.back(stack.pop(), variables, dropped, at)
                else:
                    self._return(code, stack.pop(), dropped, at)
                return
            if self._goes_elsewhere(code, number, operation, stack, variables, dropped, at, loop):
                return
            if name == "FOR_ITER":
                self._iterate(
                    run, number - 1, argument, replace(state, stack=stack, variables=variables, dropped=dropped)
                )
                return
            if name.startswith(("POP_JUMP", "JUMP_IF")):
                self._fork(
                    run, name, number, argument, replace(state, stack=stack, variables=variables, dropped=dropped)
                )
                return
            if name in ("JUMP", "JUMP_BACKWARD"):
                _check_jump(argument, number, loop)
                number = argument
            elif name == "END_FOR":  # the loop has taken what it would
                number += ends_loops_twice()
            elif name == "POP_TOP":
                dropped = dropping(dropped, stack.pop())
            elif name == "GET_YIELD_FROM_ITER":
                self._give(stack.pop(), at)
                number = self._after_yield_from(code, number)
                stack.push(Constant(None))
            elif not self._has_given(code, operation, stack, at):
                if name == "CALL" and argument == 0 and stack.peek(2, "function"):
                    self._comprehend(stack, variables, code, number, at)
                else:
                    dropped = self._reader(code)._step(operation, stack, variables, dropped)

    def _has_given(self, code: Code, operation: Operation, stack: Stack, at: Emission) -> bool:
        """Give one result, if that is what an operation does; return whether it is."""
        if operation.name == "YIELD_VALUE":
            self._give_one(stack.pop(), at)
            stack.push(Constant(None))
            return True
        if operation.name == "LIST_APPEND" and self._is_result(code, stack, operation.argument):
            self._give_one(stack.pop(), at)
            return True
        return False

    @staticmethod
    def _is_result(code: Code, stack: Stack, depth: int) -> bool:
        """Whether an item is appended to the list of a comprehension, and not to a display within it."""
        if stack.peek(depth + 1, "comprehension"):
            return True
        return code.comprehension and not code.generator and stack.depth() == depth + 1

    def _comprehend(self, stack: Stack, variables: Variables, code: Code, number: int, at: Emission) -> None:
        """Call the function that a comprehension is; if its results are returned or yielded at once, no list of them is made."""
        iterator, function = stack.pop(), stack.pop()
        reader = self._reader(code)
        loops = sum(each.name == "FOR_ITER" for each in operations_of(function.value))
        if not self._is_given(code, number) or loops > 1 or function.value.co_name in ("<setcomp>", "<dictcomp>"):
            stack.push(reader.comprehended(function.value, iterator, variables))
            return
        inner, seen = self._code(function.value, comprehension=True), reader.seen_by(function.value, variables)
        found, self._found = self._found, []
        self._run(inner, 0, Stack(self), {**seen, ".0": iterator}, (), at, None)
        self._found, made = found, self._found
        stack.push(Marker("several", value=made))

    @staticmethod
    def _is_given(code: Code, number: int) -> bool:
        """Whether the list of a comprehension is given as it is: nothing else is done with it."""
        while code.operations[number].name in ("END_FOR", "SWAP", "STORE_FAST"):
            # In 3.13, what is popped here is the iterator.
            number += 1 + (code.operations[number].name == "END_FOR" and ends_loops_twice())
        return code.operations[number].name in ("RETURN_VALUE", "GET_YIELD_FROM_ITER") and not code.comprehension

    @staticmethod
    def _after_yield_from(code: Code, number: int) -> int:
        """Return where it goes on after ``yield from``: where its loop of instructions ends."""
        if [each.name for each in code.operations[number : number + 2]] != ["LOAD_CONST", "SEND"]:
            raise NotVectorizable("yields in a way that is not known")
        target: int = code.operations[number + 1].argument
        return target

    def _fork(self, run: _Run, name: str, here: int, there: int, state: State) -> None:
        _check_jump(there, here, run.loop)
        run.agenda.branch(name, here, there, state)

    def _iterate(self, run: _Run, here: int, stop: int, state: State) -> None:
        code, stack, variables, dropped = run.code, state.stack, state.variables, state.dropped
        at = run.at_of(state.when)
        iterator = stack.pop()
        assert isinstance(iterator, Marker)
        reader = self._reader(code)
        if reader.is_comprehension(here):
            # From 3.12 on, a comprehension is a loop in the function. What it gives is one value for what comes behind it.
            stack.pop()
            loops = sum(each.name == "FOR_ITER" for each in code.operations[here:stop])
            if (
                not self._is_given(code, stop)
                or loops > 1
                or code.operations[here - 2].name in ("BUILD_SET", "BUILD_MAP")
            ):
                stack.push(reader.of_comprehension(here, reader.loop_over(here, iterator, variables)))
                run.agenda.add(state, stop)
                return
            inside = stack.copy()
            inside.push(Marker("comprehension"))
            found, self._found = self._found, []
            self._loop(
                code, here, stop, inside, iterator, variables, at, lambda variables, dropped, at: self._end(dropped, at)
            )
            found, self._found = self._found, found
            stack.push(Marker("several", value=found))
            run.agenda.add(state, stop)
            return
        if at.items is None and self._only_carries(code, here, stop, iterator, variables):
            carried = reader.carry(here, stop, iterator, variables, stack.depth())
            run.agenda.add(replace(state, dropped=(*dropped, *carried)), stop)
            return

        def behind(variables: Variables, more: tuple[Expression, ...], then: Emission) -> None:
            if then is at:
                run.agenda.add(replace(state, variables=variables, dropped=(*dropped, *more)), stop)
            else:  # a path through a loop over a display, with conditions of its own
                self._run(code, stop, stack, variables, (*dropped, *more), then, run.loop)

        self._loop(code, here, stop, stack, iterator, variables, at, behind)

    @staticmethod
    def _only_carries(code: Code, here: int, stop: int, iterator: Marker, variables: Variables) -> bool:
        """Whether a loop over a list gives no results, and changes variables that are there before it."""
        inner = code.operations[here + 1 : stop]
        if isinstance(iterator.value, Marker | Make) or any(
            each.name in ("YIELD_VALUE", "GET_YIELD_FROM_ITER", "RETURN_VALUE") for each in inner
        ):
            return False
        lists = {name for name, value in variables.items() if isinstance(value, Marker) and value.kind == "list"}
        stored = {each.argument for each in inner if each.name in ("STORE_FAST", "STORE_DEREF")}
        appended = {each.argument for each in inner if each.name == "LOAD_FAST"} & lists
        return bool(appended or stored & variables.keys())

    def _loop(
        self, code: Code, here: int, stop: int, stack: Stack, iterator: Marker, variables: Variables, at: Emission, then: Then
    ) -> None:  # fmt: skip
        """Follow the body for each item of a tuple, or once for any text; ``then`` is called where the loop is through."""
        items = iterator.value
        if isinstance(items, Marker) and items.kind == "generator":
            items = items.value
        if isinstance(items, Marker) and items.kind == "list":
            items = Make(tuple(items.value))

        def run(
            item: Expression, variables: Variables, dropped: tuple[Expression, ...], at: Emission, then: Then
        ) -> None:
            body = stack.copy()
            body.push(iterator)
            body.push(item)
            self._run(code, here + 1, body, variables, dropped, at, LoopAround(here, stop, then))

        if isinstance(items, Make):
            if any(isinstance(each, Unpacked) for each in items.items):
                raise NotVectorizable("loops over a display with *")

            def from_item(number: int, variables: Variables, dropped: tuple[Expression, ...], at: Emission) -> None:
                if number == len(items.items):
                    then(variables, dropped, at)
                else:
                    run(items.items[number], variables, dropped, at, lambda *state: from_item(number + 1, *state))

            from_item(0, variables, (), at)
            return
        if at.items is not None:
            raise NotVectorizable("has a loop in a loop")
        inner = code.operations[here + 1 : stop]
        assigned = {each.argument for each in inner if each.name in ("STORE_FAST", "STORE_DEREF")}
        known = {name: found for name, found in variables.items() if name not in assigned}
        before, texts = len(self._found), expression_on(items)
        there = [*known.values(), *(stack.item(depth) for depth in range(1, stack.depth() + 1))]
        outside = tuple(
            expression_on(each) for each in there if isinstance(each, Expression) or getattr(each, "kind", "") == "list"
        )
        body = replace(at, items=texts, segment=self._next(), outside=outside)
        with self._steps.inside():
            run(_ITEM, known, (), body, lambda variables, dropped, at: self._end(dropped, at))
        then(known, dropping((), texts) if len(self._found) == before else (), at)

    # ---- what comes of it

    def _return(self, code: Code, value: Any, dropped: tuple[Expression, ...], at: Emission) -> None:
        if code.comprehension:
            pass
        elif code.generator:
            dropped = dropping(dropped, value)
        else:
            self._give(value, at)
        self._end(dropped, at)

    def _give(self, value: Any, at: Emission) -> None:
        """Give all that is in a value."""
        if isinstance(value, Marker) and value.kind == "several":
            self._segments += 1
            for each in value.value:
                self._found.append(replace(each, segment=self._segments if each.items is not None else self._next()))
            return
        if isinstance(value, Marker) and value.kind == "list":
            value = Make(tuple(value.value))
        if isinstance(value, Marker) and value.kind == "generator":
            value = value.value
        if isinstance(value, Make):
            for each in value.items:
                if isinstance(each, Unpacked):
                    raise NotVectorizable("returns a display with *")
                self._give_one(each, at)
            return
        if value == Constant(None):
            return
        if at.items is not None:
            raise NotVectorizable("has a loop in a loop")
        self._emit(replace(at, items=expression_on(value), result=_ITEM, segment=self._next()))

    def _give_one(self, value: Any, at: Emission) -> None:
        """Give one result."""
        self._emit(replace(at, result=expression_on(value)))

    def _next(self) -> int:
        self._segments += 1
        return self._segments

    def _emit(self, emission: Emission) -> None:
        if emission.items is None:
            emission = replace(emission, segment=self._next())
        self._found.append(emission)

    def _end(self, dropped: tuple[Expression, ...], at: Emission) -> None:
        self._steps.end()
        check = checked(dropped, at, self._found)
        if check is not None:
            self._found.append(check)


def _check_jump(there: int, here: int, loop: LoopAround | None) -> None:
    """Raise ``NotVectorizable`` for a jump back that is not to the next item of the loop: ``while`` may go on for ever."""
    if there < here and (loop is None or there != loop.at):
        raise NotVectorizable("has a loop")


def under(at: Emission, condition: Expression) -> Emission:
    """Return an emission, or one to be, with one more condition."""
    if at.items is None:
        return replace(at, guards=(*at.guards, condition))
    return replace(at, conditions=(*at.conditions, condition))


__all__ = ["FlatMapTracer", "trace_flat_map", "under"]

"""The way through a function, from one operation to the next, and from one place where paths meet to the next.

What follows an ``if`` is read once, and the expressions grow with the length of the function, not with the number of paths.
"""

from __future__ import annotations

from dataclasses import replace

from funken.columnar.bytecode import Operation, always_raises, ends_loops_twice
from funken.columnar.calling.markers import Marker, expression_on
from funken.columnar.calling.steps import Steps
from funken.columnar.evaluated import pruned
from funken.columnar.expressions import Choose, Constant, Expression, Make, NotVectorizable, Raises, Sequence
from funken.columnar.lists.carried import CarriedVariables
from funken.columnar.lists.comprehensions import DISPLAY, VariablesReader, dropping, items_displayed
from funken.columnar.lists.results import ResultOfItem
from funken.columnar.meeting import Agenda, State, labels_of
from funken.columnar.stack import Stack
from funken.expr.paths import PathCondition


class Walk:
    """Follows a function to its returns, or the body of the loop ``at`` to its end.

    ``carried`` are the variables that a loop, which is no comprehension, carries from one item to the next.
    """

    def __init__(self, reader: VariablesReader, at: int | None = None, carried: tuple[str, ...] | None = None) -> None:
        self._reader = reader
        self._operations: list[Operation] = reader._operations
        self._steps: Steps = reader._steps
        self._at = at
        self._carried = carried
        self._labels = labels_of(self._operations)
        self._results: list[tuple[PathCondition, Expression]] = []
        self._agenda = Agenda(self._steps)

    def run(self, begin: State) -> Expression:
        """Return what the function gives: its results, chosen by the conditions of their paths."""
        self._agenda.add(begin, begin.number)
        while states := self._agenda.take():
            for state in states:
                self._go(state)
        return pruned(self._agenda.conditions.choose(self._results, Choose), self._agenda.key)

    def _end(self, state: State, result: Expression) -> None:
        self._results.append((state.when, result))

    # ---- from one place to the next

    def _go(self, state: State) -> None:
        number = state.number
        if self._reader.raises and self._at is None and always_raises(self._operations, number):
            self._end(state, Raises())
            return
        stack, variables, dropped, given = state.stack.copy(), dict(state.variables), state.dropped, state.given

        def now() -> State:
            return replace(state, stack=stack, variables=variables, dropped=dropped, given=given)

        first = True
        while True:
            if number == self._at:
                end: Expression = given or ResultOfItem(None)
                if self._carried is not None:
                    values = tuple(expression_on(variables[each]) for each in self._carried)
                    end = CarriedVariables(values, given)
                self._end(state, Sequence(dropped, end) if dropped else end)
                return
            if number in self._labels and not first:
                self._agenda.add(now(), number)
                return
            first = False
            self._steps.count()
            operation = self._operations[number]
            name, argument = operation.name, operation.argument
            number += 1
            if name == "RETURN_VALUE":
                if self._at is not None:
                    raise NotVectorizable("leaves a loop early")
                value = expression_on(stack.pop())
                self._end(state, Sequence(dropped, value) if dropped else value)
                return
            if name.startswith(("POP_JUMP", "JUMP_IF")):
                self._branch(name, number, argument, now())
                return
            if name == "JUMP" or (
                name == "JUMP_BACKWARD" and (argument == self._at or self._goes_over(argument, stack))
            ):
                number = argument
            elif name == "JUMP_BACKWARD":
                raise NotVectorizable("has a loop")
            elif name == "FOR_ITER":
                self._begin_loop(number - 1, argument, now())
                return
            elif name == "END_FOR":  # the loop has taken what it would
                number += ends_loops_twice()
            elif self._gives(operation, stack):
                given = self._given(operation, stack, given)
            elif name == "CALL" and argument == 0 and stack.peek(2, "function"):
                iterator, function = stack.pop(), stack.pop()
                stack.push(self._reader.comprehended(function.value, iterator, variables))
            elif name == "POP_TOP":
                dropped = dropping(dropped, stack.pop())
            else:
                dropped = self._reader._step(operation, stack, variables, dropped)

    def _gives(self, operation: Operation, stack: Stack) -> bool:
        """Return whether an operation of the body of a loop gives a result for the item."""
        if operation.name == "CALL" and operation.argument == 1 and stack.peek(2, "append"):
            return True
        return self._at is not None and (operation.name == "YIELD_VALUE" or _appends(operation, stack))

    def _given(self, operation: Operation, stack: Stack, given: ResultOfItem | None) -> ResultOfItem:
        """Return what an operation gives for the item, which has ``given`` something perhaps."""
        appends = operation.name == "CALL"
        if given is not None or (appends and self._carried is None):
            raise NotVectorizable("makes a list" if appends else "has a loop in a loop")
        value = expression_on(stack.pop())
        if operation.name == "MAP_ADD":
            value = Make((expression_on(stack.pop()), value))
        if appends:
            stack.pop()
            stack.pop()
        if appends or operation.name == "YIELD_VALUE":
            stack.push(Constant(None))
        return ResultOfItem(value)

    def _begin_loop(self, here: int, stop: int, state: State) -> None:
        """Begin a loop, or go on with the next item of a display."""
        reader, stack, variables, given, dropped = (
            self._reader,
            state.stack,
            state.variables,
            state.given,
            state.dropped,
        )
        iterator = stack.pop()
        if reader.is_comprehension(here):
            stack.pop()
            stack.push(reader.of_comprehension(here, reader.loop_over(here, iterator, variables)))
            self._agenda.add(state, stop)
            return
        in_comprehension = self._at is not None and self._carried is None
        shown = None if in_comprehension else items_displayed(iterator)
        if shown and not (isinstance(iterator, Marker) and iterator.kind == DISPLAY):
            for each in shown:  # all of them are evaluated before the loop, which may leave some out
                dropped = dropping(dropped, each)
        if shown:
            stack.push(Marker(DISPLAY, "an iterator", shown[1:]))
            stack.push(shown[0])
            inside = any(start == here for start, _, _ in state.loops)
            loops = state.loops if inside else (*state.loops, (here, stop, 0))
            self._agenda.add(replace(state, dropped=dropped, loops=loops), here + 1)
            return
        if shown is None and self._at is None:
            dropped = (*dropped, *reader.carry(here, stop, iterator, variables, stack.depth()))
        elif shown is None:
            if given is not None or self._carried is not None:
                raise NotVectorizable("has a loop in a loop")
            loop = expression_on(reader.loop_over(here, iterator, variables, stack))
            given = ResultOfItem(loop, several=True)
        self._agenda.add(replace(state, dropped=dropped, given=given), stop)

    def _goes_over(self, there: int, stack: Stack) -> bool:
        """Whether a jump back is to the next item of a display."""
        return self._operations[there].name == "FOR_ITER" and stack.peek(1, DISPLAY)

    def _branch(self, name: str, here: int, there: int, state: State) -> None:
        """Go on both ways; back to the beginning of a loop over a list only at the end of its body."""
        back = there < here or "BACKWARD" in name
        if (
            back
            and there != self._at
            and not (self._operations[there].name == "FOR_ITER" and state.stack.peek(2, DISPLAY))
        ):
            raise NotVectorizable("has a loop")
        self._agenda.branch(name, here, there, state)


def _appends(operation: Operation, stack: Stack) -> bool:
    depth = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2}.get(operation.name)
    return depth is not None and stack.peek(operation.argument + depth, "comprehension")


__all__ = ["Walk"]

"""The way through a function, from one operation to the next, and from one place where paths meet to the next.

What follows an ``if`` is read once, and the expressions grow with the length of the function, not with the number of paths.
"""

from __future__ import annotations

from dataclasses import replace

from funken.columnar.bytecode import Operation, always_raises, ends_loops_twice
from funken.columnar.calling import DISPLAY, Marker, expression_on
from funken.columnar.expressions import Choose, Constant, Expression, Make, NotVectorizable, Raises, Sequence, pruned
from funken.columnar.lists.comprehensions import VariablesReader, items_displayed
from funken.columnar.lists.results import CarriedVariables, ResultOfItem
from funken.columnar.stack import Agenda, Stack, State, labels_of
from funken.expr.paths import PathCondition


class Walk:
    """Follows a function to its returns, or the body of the loop ``at`` to its end.

    ``carried`` are the variables that a loop, which is no comprehension, carries from one item to the next.
    """

    def __init__(
        self, reader: VariablesReader, at: int | None = None, carried: tuple[str, ...] | None = None,
        agenda: Agenda | None = None,
    ) -> None:  # fmt: skip
        self.agenda = Agenda(reader._steps) if agenda is None else agenda
        self._reader = reader
        self.operations: list[Operation] = reader._operations
        self._at = at
        self._carried = carried
        self._labels = labels_of(self.operations)
        self._results: list[tuple[PathCondition, Expression]] = []

    def run(self, begin: State) -> Expression:
        """Return what the function gives: its results, chosen by the conditions of their paths."""
        self.follow(begin)
        return pruned(self.agenda.conditions.choose(self._results, Choose), self.agenda.key)

    def follow(self, begin: State) -> None:
        """Follow all paths from a state on."""
        self.agenda.add(begin, begin.number)
        while states := self.agenda.take():
            for state in states:
                self._go(state)

    # ---- where paths end

    def _ends_at(self, number: int) -> bool:
        return number == self._at

    def _end(self, state: State, result: Expression) -> None:
        self._results.append((state.when, Sequence(state.dropped, result) if state.dropped else result))

    def _end_body(self, state: State) -> None:
        """End with the body of a loop."""
        end: Expression = state.given or ResultOfItem(None)
        if self._carried is not None:
            values = tuple(expression_on(state.variables[each]) for each in self._carried)
            end = CarriedVariables(values, state.given)
        self._end(state, end)

    def _raise(self, state: State) -> None:
        """End with an exception, unless it is one for an item of a loop."""
        state.dropped = ()
        self._end(state, Raises())

    def _return(self, state: State) -> None:
        if self._at is not None:
            raise NotVectorizable("leaves a loop early")
        self._end(state, expression_on(state.stack.pop()))

    # ---- from one place to the next

    def _go(self, state: State) -> None:
        """Follow a state to the next branch, to where paths meet, or to the end."""
        if self._raises_at(state.number):
            self._raise(state)
            return
        first = True
        while True:
            if self._ends_at(state.number):
                self._end_body(state)
                return
            if state.number in self._labels and not first:
                self.agenda.add(state, state.number)
                return
            first = False
            self._reader._steps.count()
            operation = self.operations[state.number]
            name, argument = operation.name, operation.argument
            state.number += 1
            if name == "RETURN_VALUE":
                self._return(state)
                return
            if name == "FOR_ITER":
                self._begin_loop(state.number - 1, argument, state)
                return
            if "JUMP" in name:
                self._check_jump(name, argument, state)
            if name.startswith(("POP_JUMP", "JUMP_IF")):
                self._branch(name, argument, state)
                return
            if name in ("JUMP", "JUMP_BACKWARD"):
                state.number = argument
            elif name == "END_FOR":  # the loop has taken what it would
                state.number += ends_loops_twice()
            elif name == "POP_TOP":
                state.drop(state.stack.pop())
            elif self._gives(operation, state.stack):
                self._give(operation, state)
            elif name == "CALL" and argument == 0 and state.stack.peek(2, "function"):
                self._comprehend(state)
            elif self._leaves(operation, state):
                return
            else:
                self._reader._step(operation, state)

    def _raises_at(self, number: int) -> bool:
        return self._reader.raises and self._at is None and always_raises(self.operations, number)

    def _leaves(self, operation: Operation, state: State) -> bool:
        """Do an operation from which paths part that the agenda has then; return whether it is one."""
        return False

    def _check_jump(self, name: str, there: int, state: State) -> None:
        """Raise ``NotVectorizable`` for a jump back that is not to the next item of a loop: ``while`` may go on for ever."""
        if there >= state.number and "BACKWARD" not in name:
            return
        over_display = self.operations[there].name == "FOR_ITER" and state.stack.peek(
            1 + (name != "JUMP_BACKWARD"), DISPLAY
        )
        if there != self._at and not over_display:
            raise NotVectorizable("has a loop")

    def _branch(self, name: str, there: int, state: State) -> None:
        self.agenda.branch(name, state.number, there, state)

    # ---- loops, and what they give

    def _gives(self, operation: Operation, stack: Stack) -> bool:
        """Return whether an operation of the body of a loop gives a result for the item."""
        if operation.name == "CALL" and operation.argument == 1 and stack.peek(2, "append"):
            return True
        return self._at is not None and (operation.name == "YIELD_VALUE" or _appends(operation, stack))

    def _give(self, operation: Operation, state: State) -> None:
        """Note what an operation gives for the item, which was given nothing before."""
        appends, stack = operation.name == "CALL", state.stack
        if state.given is not None or (appends and self._carried is None):
            raise NotVectorizable("makes a list" if appends else "has a loop in a loop")
        value = expression_on(stack.pop())
        if operation.name == "MAP_ADD":
            value = Make((expression_on(stack.pop()), value))
        if appends:
            stack.pop()
            stack.pop()
        if appends or operation.name == "YIELD_VALUE":
            stack.push(Constant(None))
        state.given = ResultOfItem(value)

    def _comprehend(self, state: State) -> None:
        """Call the function that a comprehension is."""
        iterator, function = state.stack.pop(), state.stack.pop()
        state.stack.push(self._reader.comprehended(function.value, iterator, state.variables))

    def _begin_loop(self, here: int, stop: int, state: State) -> None:
        """Begin a loop, or go on with the next item of a display."""
        iterator = state.stack.pop()
        if self._reader.is_comprehension(here) and not state.stack.peek(1, "comprehension"):
            state.stack.pop()
            self._comprehend_loop(here, stop, iterator, state)
            self.agenda.add(state, stop)
            return
        shown = self._shown(iterator)
        if shown and not (isinstance(iterator, Marker) and iterator.kind == DISPLAY):
            for each in shown:  # all of them are evaluated before the loop, which may leave some out
                state.drop(each)
        if shown:
            state.stack.push(Marker(DISPLAY, "an iterator", shown[1:]))
            state.stack.push(shown[0])
            inside = any(start == here for start, _, _ in state.loops)
            loops = state.loops if inside else (*state.loops, (here, stop, 0))
            self.agenda.add(replace(state, loops=loops), here + 1)
            return
        if shown is None:
            self._loop_over(here, stop, iterator, state)
        self.agenda.add(state, stop)

    def _shown(self, iterator: Marker) -> list[Expression] | None:
        """Return the items that a loop is followed for one by one; ``None``: it is followed once for any item."""
        return None if self._at is not None and self._carried is None else items_displayed(iterator)

    def _comprehend_loop(self, here: int, stop: int, iterator: Marker, state: State) -> None:
        """Push what a comprehension that is a loop gives."""
        loop = self._reader.loop_over(here, iterator, state.variables)
        state.stack.push(self._reader.of_comprehension(here, loop))

    def _loop_over(self, here: int, stop: int, iterator: Marker, state: State) -> None:
        """Follow a loop over a list."""
        if self._at is None:
            self._carry(here, stop, iterator, state)
            return
        if state.given is not None or self._carried is not None:
            raise NotVectorizable("has a loop in a loop")
        loop = expression_on(self._reader.loop_over(here, iterator, state.variables, state.stack))
        state.given = ResultOfItem(loop, several=True)

    def _carry(self, here: int, stop: int, iterator: Marker, state: State) -> None:
        evaluated = self._reader.carry(here, stop, iterator, state.variables, state.stack.depth())
        state.dropped = (*state.dropped, *evaluated)


def _appends(operation: Operation, stack: Stack) -> bool:
    depth = {"LIST_APPEND": 1, "SET_ADD": 1, "MAP_ADD": 2}.get(operation.name)
    return depth is not None and stack.peek(operation.argument + depth, "comprehension")


__all__ = ["Walk"]

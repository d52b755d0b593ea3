"""The hot loop of windows that reduce by key, generated: the key selector's and the reduce function's bodies in one loop.

A record is taken once for all of the panes that it is added to: its key once, then a lookup, the reduction and a store per pane.
That needs both functions to be readable (``codegen/inlining.py``); others are called pane by pane (``contents.py``). Tuples that
come field by field (``TupleBlock``) are made only for the first record of a key in a pane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from funken.operators.base import Operator
from funken.operators.codegen.loops import LoopText, by_field, names_of_fields
from funken.state.delta_tables import DeltaTable
from funken.state.keys.normal import PLAIN, normal_key

_MOST_PANES = 16
"""More panes at once would be a long loop for few records."""

Loop = Callable[..., None]


class ReduceLoops:
    """The loops of one operator, made when they are first needed: by number of panes, and ``TupleBlock.form`` (none: records).

    ``older(pane, key, value)`` adds a record where only the older layer of a pane may have something. There are no loops if the
    context of the operator has no ``inlining``.
    """

    def __init__(
        self,
        operator: Operator,
        key: Callable[[Any], Any],
        reduce: Callable[[Any, Any], Any],
        older: Callable[[DeltaTable, Any, Any], None],
    ) -> None:
        self._operator = operator
        self._key = key
        self._reduce = reduce
        self._older = older
        self._loops: dict[tuple[int, tuple[int, ...]], Loop | None] = {}

    def takes(self, panes: int, form: tuple[int, ...] = ()) -> bool:
        """Whether there is a loop for so many panes at once and tuples of such a form."""
        return self._loop(panes, form) is not None

    def collect(
        self, panes: Sequence[DeltaTable], values: Iterable[Any], form: tuple[int, ...] = (), constants: Iterable[Any] = ()
    ) -> None:  # fmt: skip
        """Add records, in order, to each of the panes. ``form``: ``values`` are the fields of tuples, but for ``constants``."""
        loop = self._loop(len(panes), form)
        assert loop is not None
        loop(values, self._older, *panes, *constants)

    def _loop(self, panes: int, form: tuple[int, ...]) -> Loop | None:
        if (panes, form) not in self._loops:
            may = 0 < panes <= _MOST_PANES and self._may_inline()
            self._loops[panes, form] = self._generate(panes, form) if may else None
        return self._loops[panes, form]

    def _may_inline(self) -> bool:
        context = getattr(self._operator, "context", None)  # there is none before it is set up
        return context is None or bool(context.inlining)

    def _generate(self, panes: int, form: tuple[int, ...]) -> Loop | None:
        places = range(panes)
        names, each, constants = names_of_fields("value", form)
        text = LoopText("windows", ", ".join(["values", "older", *(f"pane{place}" for place in places), *constants]))
        text.name("_type", type)
        text.name("_TypeError", TypeError)
        text.name("plain", PLAIN)
        text.name("normal_key", normal_key)
        key = text.step(self._operator, self._key, "value")
        steps = [text.step(self._operator, self._reduce, f"stored{place}", "value") for place in places]
        if not key.inlined or not steps[0].inlined:
            return None
        whole = "value"
        if form:
            taken = [by_field(step, "value", names) for step in (key, *steps)]
            if any(step is None for step in taken):
                return None
            key, *steps = (step for step in taken if step is not None)
            whole = f"({', '.join(names)},)"
        for place in places:
            text.line(f"new{place} = pane{place}.delta")
            text.line(f"get{place} = new{place}.get")
            text.line(f"has_older{place} = not not pane{place}.base")
        # Hot: a key, and per pane a lookup, the user's function, a store.
        text.line(f"for {each} in values:")
        text.line(f"of = {key.expression}", key)
        for place, step in zip(places, steps, strict=True):
            text.line("try:")
            text.line(f"stored{place} = get{place}(of)")
            text.dedent()
            text.line(f"except _TypeError: stored{place} = None")  # NumPy's ints and decimals cannot be compared
            text.line(f"if stored{place} is not None: new{place}[of] = {step.expression}", step)
            text.line("else:")
            text.line("if _type(of) not in plain:")  # a NaN is never found, and is one key
            text.line("of = normal_key(of)")
            text.line(f"stored{place} = get{place}(of)")
            text.dedent()
            text.line(f"if stored{place} is not None: new{place}[of] = {step.expression}", step)
            text.line(f"elif has_older{place}: older(pane{place}, of, {whole})")
            text.line(f"else: new{place}[of] = {whole}")
            text.dedent()
        return text.compile()


__all__ = ["ReduceLoops"]

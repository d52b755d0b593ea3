"""Count windows: a key's records in groups of so many, in the order of arrival. No time, hence no timers.

What a key has is a count and its contents; a full group fires within the block that filled it. An incomplete last group
never fires. Sliding windows keep the last ``size`` records and fire after every ``slide`` of them. Snapshots have
``(count, contents)`` of each key as keyed state.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from funken.operators.base import Output, Timestamps, Values
from funken.operators.context import OperatorContext
from funken.operators.window.base import WindowOperator
from funken.operators.window.spec import Strategy
from funken.state.delta_tables import KeyedDeltaTable
from funken.state.descriptors import StateKind
from funken.windowing.assigners import CountTumblingWindowAssigner
from funken.windowing.windows import CountWindow, GlobalWindow

if TYPE_CHECKING:
    from funken.operators.window.spec import WindowSpec


class CountOperator(WindowOperator):
    """Base of both kinds: entries ``[count, contents]`` by key, changed in place."""

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        self._entries = KeyedDeltaTable(tuple, lambda key, saved: [saved[0], self.revive(saved[1])])

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self.store.register(Strategy.COUNTS.state_name, StateKind.VALUE, self._entries)

    def fire_all(self) -> None:
        """Do nothing: these windows do not wait for a time."""

    def revive(self, contents: Any) -> Any:
        """Return contents as they were before the snapshot."""
        return contents


class TumblingCounts(CountOperator):
    """Groups of ``size`` records. The count goes on over the groups where they are numbered, else starts anew."""

    def __init__(self, spec: WindowSpec, size: int) -> None:
        super().__init__(spec)
        self._size = size
        self._numbered = isinstance(spec.assigner, CountTumblingWindowAssigner)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block."""
        new, old, size, numbered = self._entries.delta, self._entries.base.get, self._size, self._numbered
        start, fold, fire, store = self.contents.start, self.contents.fold, self.emitter.fire, self.store
        every = GlobalWindow.get()
        for key, value in zip(self.keys(values), values, strict=True):
            entry = new.get(key)
            if entry is None:
                entry = new[key] = old(key) or [0, None]
            count, stored = entry
            entry[0] = count = count + 1
            entry[1] = stored = start(value) if stored is None else fold(stored, value)
            if count % size == 0:
                store.current_key = key
                if stored is not None:
                    fire(key, CountWindow(count // size - 1) if numbered else every, stored)
                if numbered:
                    entry[1] = None
                else:
                    self._entries.remove(key)
        self._flush_results()


class SlidingCounts(CountOperator):
    """The last ``size`` records or fewer, after every ``slide``; the contents are a deque of records."""

    def __init__(self, spec: WindowSpec, size: int, slide: int) -> None:
        super().__init__(spec)
        self._size = size
        self._slide = slide

    def revive(self, contents: Any) -> Any:
        """Return a deque that forgets all but the last records."""
        return deque(contents, maxlen=self._size)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block."""
        new, old, slide = self._entries.delta, self._entries.base.get, self._slide
        compute, fire, store = self.contents.compute, self.emitter.fire, self.store
        window = GlobalWindow.get()
        for key, value in zip(self.keys(values), values, strict=True):
            entry = new.get(key)
            if entry is None:
                entry = new[key] = old(key) or [0, self.revive(())]
            entry[0] += 1
            entry[1].append(value)
            if entry[0] == slide:
                entry[0] = 0
                stored = compute(list(entry[1]))
                if stored is not None:
                    store.current_key = key
                    fire(key, window, stored)
        self._flush_results()

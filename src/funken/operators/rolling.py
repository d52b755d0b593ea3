"""Rolling aggregates on keyed streams: reduce, sum, min, max, min_by, max_by.

In STREAMING every record gives the aggregate so far (the first record unchanged); in BATCH each key gives its final
value once, at the end of the input, with the highest timestamp seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.calls import Call
from funken.state.keyed import NO_KEY
from funken.state.keygroups import key_group_of

_MISSING = object()


@dataclass(frozen=True)
class RollingReduce:
    """``reduce`` over all records of a key, with the result emitted per record."""

    key: Call
    function: Call

    def build(self) -> Operator:
        """Make the logic."""
        return RollingReduceLogic(self.key, self.function)


class RollingReduceLogic(Operator):
    """One dict from key to aggregate."""

    def __init__(self, key: Call, function: Call) -> None:
        self._key = key.bind()
        self._function = function
        self._reduce = function.bind()
        self._state: dict[Any, Any] = {}
        self._last: dict[Any, int] = {}

    def open(self) -> None:
        """Open the user's function."""
        self._function.open(self.context)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Reduce a block."""
        if self.context.batch:
            self._process_batch(values, timestamps)
            return
        if self._function.rich:
            self._process_with_state(values, timestamps)
            return
        key, reduce, state, get = self._key, self._reduce, self._state, self._state.get
        results: list[Any] = []
        append = results.append
        # Hot: a key, a lookup, the user's function, a store, an append; nothing else.
        for value in values:
            of = key(value)
            old = get(of, _MISSING)
            state[of] = new = value if old is _MISSING else reduce(old, value)
            append(new)
        self.output.emit(results, timestamps)

    def _process_with_state(self, values: Values, timestamps: Timestamps) -> None:
        key, reduce, state, store = self._key, self._reduce, self._state, self.context.keyed
        results: list[Any] = []
        for value in values:
            of = key(value)
            if of not in state:
                new = value
            else:
                if store is not None:
                    store.current_key = of
                new = reduce(state[of], value)
            state[of] = new
            results.append(new)
        self._forget_key()
        self.output.emit(results, timestamps)

    def _forget_key(self) -> None:
        if self.context.keyed is not None:
            self.context.keyed.current_key = NO_KEY

    def _process_batch(self, values: Values, timestamps: Timestamps) -> None:
        key, reduce, state, last = self._key, self._reduce, self._state, self._last
        store = self.context.keyed if self._function.rich else None
        for position, value in enumerate(values):
            of = key(value)
            old = state.get(of, _MISSING)
            if store is not None:
                store.current_key = of
            state[of] = value if old is _MISSING else reduce(old, value)
            if timestamps is not None:
                last[of] = max(last.get(of, MIN_TIMESTAMP), timestamps[position])
        self._forget_key()

    def finish(self) -> None:
        """In BATCH: emit what each key came to."""
        if self.context.batch and self._state:
            stamps = [self._last.get(key, MIN_TIMESTAMP) for key in self._state] if self._last else None
            self.output.emit(list(self._state.values()), stamps)

    def snapshot(self) -> Any:
        """Return the aggregates by key group."""
        groups: dict[int, list[tuple[Any, Any]]] = {}
        for key, value in self._state.items():
            groups.setdefault(key_group_of(key, self.context.max_parallelism), []).append((key, value))
        return groups

    def restore(self, snapshot: Any) -> None:
        """Take aggregates of this subtask's key groups."""
        for pairs in snapshot.values():
            self._state.update(pairs)

    def close(self) -> None:
        """Close the user's function."""
        self._function.close()

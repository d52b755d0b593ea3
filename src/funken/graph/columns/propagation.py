"""Programs that propagate the least value: connected components, shortest paths, breadth-first search."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from funken.graph.columns.parts import GraphPart, PartLayout, value_of_each
from funken.graph.columns.supersteps import Message, PartProgram, SuperstepView, pushed, received


class LeastValue(PartProgram):
    """Every vertex takes the least value of its own and its neighbours', until nothing changes."""

    layout = PartLayout(both=True, values=True)
    weigh: Any = None

    def start(self, part: GraphPart) -> tuple[Any, Any]:
        """Return the values that the vertices begin with, and which of them are sent."""
        return value_of_each(part, "connected components need a value per vertex, to take the least of"), np.ones(
            len(part), bool
        )

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Take what came, and send what is new."""
        if state is None:
            values, changed = self.start(part)
            view.add("active", 1)
        else:
            values = received(messages, state.copy(), np.minimum)
            changed = values != state
            count = int(changed.sum())
            view.add("active", count)
            if not count:
                return values, []
        active = None if changed.all() else changed
        return values, pushed(part.routes, values, np.minimum, self.weigh, active)

    def results(self, part: GraphPart, state: Any) -> Iterable[Any]:
        """Return ids and values."""
        return zip(part.ids.tolist(), state.tolist(), strict=True)


class Distance(LeastValue):
    """The least sum of weights from a source; infinite where there is no way."""

    weigh: Callable[[Any, Any], Any] = staticmethod(np.add)

    def __init__(self, source: Any, weighted: bool = True) -> None:
        self.source = source
        self.layout = PartLayout(weights=weighted)
        if not weighted:
            self.weigh = _one_more

    def start(self, part: GraphPart) -> tuple[Any, Any]:
        """Begin at the source."""
        values = np.full(len(part), np.inf)
        here = _places(part.ids, self.source)
        values[here] = 0.0
        return values, here


class Level(Distance):
    """The number of edges from a source, for those that can be reached."""

    def __init__(self, source: Any) -> None:
        super().__init__(source, weighted=False)

    def results(self, part: GraphPart, state: Any) -> Iterable[Any]:
        """Return ids and levels."""
        reached = np.isfinite(state)
        return zip(part.ids[reached].tolist(), state[reached].astype(np.int64).tolist(), strict=True)


def _one_more(values: Any, _: Any) -> Any:
    return values + 1.0


def _places(ids: Any, wanted: Any) -> Any:
    """Return where the ids are the wanted one."""
    if ids.dtype == np.int64:
        return ids == wanted if isinstance(wanted, (int, float)) else np.zeros(len(ids), bool)
    return np.fromiter((each == wanted for each in ids.tolist()), bool, len(ids))

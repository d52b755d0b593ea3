"""Which vertex a job waits for, and which vertices stand still because of it.

Flow control keeps queues short: sources pause by what queues anywhere behind them, so the vertices in between are neither busy
nor blocked, and by their own times they are idle. Whoever looks for the first vertex that is not back-pressured, as Flink's users
do, would find the wrong one. So the driver, which knows the graph, looks from each source that is held back for the busiest
vertex behind it, and counts the time in which that source was held back for every vertex between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from funken.dataclass import dataclass
from funken.ids import Millis

HELD_BACK = 0.1
"""From which share of time on a source counts as held back; Flink's bound between "ok" and "low"."""
_BUSY_SOURCE = 0.8
"""From which share of time on a source that nobody holds back is what the job waits for."""
_BUSY = 0.3
"""A vertex that is less busy is nobody's bottleneck: what holds the source back is outside of the job, or only passing."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The vertex that a job waits for.

    ``busy`` is the share of time of its busiest subtask, ``held_back`` that of the sources before it, ``since`` when the first of
    these was held back (wall clock, ms); ``between`` are the vertices that stand still because of it, sources included. A source
    that is always busy, and that nobody holds back, is a bottleneck too: ``between`` is empty then.

    >>> Bottleneck(2, "enrich", 3, 0.92, 0.8, Millis(0), (0, 1)).text("12:03:10")
    'enrich is the bottleneck: subtask 3 is 92 % busy; input held back for 80 % of the time since 12:03:10'
    """

    vertex: int
    name: str
    subtask: int
    busy: float
    held_back: float
    since: Millis
    between: tuple[int, ...]

    def text(self, since: str) -> str:
        """Say it in words; ``since`` is the moment as the reader writes it."""
        waits = f"input held back for {self.held_back:.0%} of the time" if self.between else "what is behind it waits"
        text = f"{self.name} is the bottleneck: subtask {self.subtask} is {self.busy:.0%} busy; {waits} since {since}"
        return text.replace("%", " %")


class FlowGraph:
    """The vertices of a plan and how records flow through them, without what goes back to the head of a loop.

    >>> graph = FlowGraph([0, 1, 2, 3], [(0, 1), (1, 2), (1, 3)])
    >>> graph.pressure(sources={0: 0.8}, busy={1: 0.1, 2: 0.9, 3: 0.2})
    {2: (0.8, (0, 1))}
    >>> graph.pressure(sources={0: 0.05}, busy={1: 0.1, 2: 0.9, 3: 0.2})
    {}
    """

    def __init__(self, vertices: Iterable[int], edges: Iterable[tuple[int, int]]) -> None:
        self._after: dict[int, set[int]] = {vertex: set() for vertex in vertices}
        self._before: dict[int, set[int]] = {vertex: set() for vertex in self._after}
        for source, target in edges:
            self._after[source].add(target)
            self._before[target].add(source)

    def pressure(
        self, sources: Mapping[int, float], busy: Mapping[int, float]
    ) -> dict[int, tuple[float, tuple[int, ...]]]:
        """Return the bottlenecks: for which share of time each holds sources back, and which vertices are held back by it.

        ``sources`` maps each source to the share of time in which it is held back, ``busy`` each other vertex to the share of
        time in which its busiest subtask is busy.
        """
        found: dict[int, tuple[float, set[int]]] = {}
        for source, held in sources.items():
            behind = _reachable(source, self._after) - {source}
            worst = max(behind, key=lambda vertex: (busy.get(vertex, 0.0), vertex), default=None)
            if held < HELD_BACK or worst is None or busy.get(worst, 0.0) < _BUSY:
                continue
            between = (behind & _reachable(worst, self._before)) - {worst}
            share, others = found.get(worst, (0.0, set()))
            found[worst] = max(share, held), others | between | {source}
        return {vertex: (share, tuple(sorted(between))) for vertex, (share, between) in found.items()}

    def busy_sources(self, sources: Mapping[int, float], busy: Mapping[int, float]) -> list[int]:
        """Return the sources that the vertices behind them wait for: always busy, busier than those, and held back by none.

        >>> graph = FlowGraph([0, 1, 2], [(0, 1), (1, 2)])
        >>> graph.busy_sources({0: 0.0}, {0: 0.95, 1: 0.3, 2: 0.1}), graph.busy_sources({0: 0.5}, {0: 0.95, 1: 0.3, 2: 0.1})
        ([0], [])
        """
        return [
            source
            for source, held in sources.items()
            if held < HELD_BACK
            and busy.get(source, 0.0) >= _BUSY_SOURCE
            and all(busy.get(each, 0.0) < busy[source] for each in _reachable(source, self._after) - {source})
        ]


def _reachable(start: int, steps: Mapping[int, set[int]]) -> set[int]:
    seen, open_ = {start}, [start]
    while open_:
        for following in steps[open_.pop()] - seen:
            seen.add(following)
            open_.append(following)
    return seen

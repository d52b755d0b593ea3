"""Programs of repeated sums: PageRank and HITS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from funken.graph.columns.parts import GraphPart, PartLayout
from funken.graph.columns.supersteps import Message, PartProgram, SuperstepView, pushed, received


class Ranks(PartProgram):
    """PageRank. Superstep 1 counts the vertices, 2 sends the first ranks, every later one is an iteration."""

    sums = ("vertices", "dangling")
    converges = "change"

    def __init__(self, damping: float, threshold: float | None, zero_degree: bool) -> None:
        self._damping = damping
        self.below = -1.0 if threshold is None else threshold
        self._zero_degree = zero_degree

    def ended(self, superstep: int, total: float) -> bool:
        """Whether the sum of changes is below the threshold; the first two supersteps change nothing."""
        return superstep > 2 and total < self.below

    def _counted(self, part: GraphPart) -> Any:
        return np.ones(len(part), bool) if self._zero_degree else (part.out_degree + part.in_degree) > 0

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Add up what came, and send each rank in equal shares."""
        counted = self._counted(part)
        if state is None:
            view.add("vertices", counted.sum())
            return (0.0, None), []
        count, rank = state
        if rank is None:
            count = view.before("vertices")
            rank = np.where(counted, 1.0 / max(count, 1.0), 0.0)
        else:
            came = received(messages, np.zeros(len(part)), np.add)
            shared = (1.0 - self._damping + self._damping * view.before("dangling")) / max(count, 1.0)
            new = np.where(counted, shared + self._damping * came, 0.0)
            view.add("change", np.abs(new - rank).sum())
            rank = new
        dangling = part.out_degree == 0
        view.add("dangling", rank[dangling].sum())
        return (count, rank), pushed(part.routes, rank / np.maximum(part.out_degree, 1), np.add)

    def results(self, part: GraphPart, state: Any) -> Iterable[Any]:
        """Return ids and ranks."""
        counted = self._counted(part)
        return zip(part.ids[counted].tolist(), state[1][counted].tolist(), strict=True)


class HubsAndAuthorities(PartProgram):
    """HITS. In even supersteps hubs have come, in odd ones authorities; iteration *n* ends with superstep 2n + 2.

    Scores are scaled when they have been sent: the sum of their squares is known one superstep later.
    """

    layout = PartLayout(backward=True)
    sums = ("squares",)
    converges = "change"

    def __init__(self, threshold: float | None) -> None:
        self.below = -1.0 if threshold is None else threshold

    def ended(self, superstep: int, total: float) -> bool:
        """Whether an iteration has changed less than the threshold."""
        return superstep > 2 and superstep % 2 == 0 and total < self.below

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Scale what was sent, and add up what came."""
        if state is None:
            hubs = np.ones(len(part))
            return (hubs, hubs, np.zeros(len(part)), 0.0), pushed(part.routes, hubs, np.add)
        raw, hubs, authorities, change = state
        scale = np.sqrt(view.before("squares")) or 1.0
        came = received(messages, np.zeros(len(part)), np.add) / scale
        view.add("squares", (came**2).sum())
        scaled = raw / scale
        if view.number % 2 == 0:
            view.add("change", change + np.abs(scaled - hubs).sum())
            return (came, scaled, authorities, 0.0), pushed(part.backward, came, np.add)
        change = np.abs(scaled - authorities).sum()
        return (came, hubs, scaled, change), pushed(part.routes, came, np.add)

    def results(self, part: GraphPart, state: Any) -> Iterable[Any]:
        """Return ids, hub and authority scores."""
        return zip(part.ids.tolist(), state[1].tolist(), state[2].tolist(), strict=True)

"""Programs in which vertices take the label that is strongest among their neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from funken.graph.columns.chunks import joined
from funken.graph.columns.parts import GraphPart, PartLayout, Route, value_of_each
from funken.graph.columns.supersteps import Message, PartProgram, SuperstepView


def grouped(targets: Any, labels: Any, *sums: Any, greatest: Any = None) -> tuple[Any, ...]:
    """Return distinct (target, label) pairs in order, with sums, and with the greatest of an array.

    >>> from funken.graph.columns.chunks import column
    >>> [found.tolist() for found in grouped(np.array([2, 1, 2]), column(["a", "b", "a"]), np.array([1, 1, 1]))]
    [[1, 2], ['b', 'a'], [1, 2]]
    """
    if labels.dtype == object:
        kinds, codes = np.unique(labels, return_inverse=True)
    else:
        kinds, codes = None, labels
    order = np.lexsort((codes, targets))
    targets, codes = targets[order], codes[order]
    new = np.ones(len(order), bool)
    new[1:] = (targets[1:] != targets[:-1]) | (codes[1:] != codes[:-1])
    starts = np.flatnonzero(new)
    found = [targets[starts], codes[starts] if kinds is None else kinds[codes[starts]]]
    if len(starts):
        found += [np.add.reduceat(each[order], starts) for each in sums]
        found += [np.maximum.reduceat(greatest[order], starts)] if greatest is not None else []
    else:
        found += [each[:0] for each in sums] + ([greatest[:0]] if greatest is not None else [])
    return tuple(found)


def _last_of_each(targets: Any) -> Any:
    """Return the place of the last entry of each target in a sorted array."""
    return np.flatnonzero(np.concatenate([targets[1:] != targets[:-1], [True]])) if len(targets) else targets


def _codes(labels: Any) -> Any:
    return labels if labels.dtype != object else np.unique(labels, return_inverse=True)[1]


def _labels(part: GraphPart, algorithm: str) -> Any:
    return value_of_each(part, f"{algorithm} needs a label per vertex as its value")


class MostFrequent(PartProgram):
    """Label propagation."""

    layout = PartLayout(values=True)

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Take the most frequent label of this superstep's messages; send it on if it is new."""
        if state is None:
            labels = _labels(part, "label propagation")
            view.add("active", 1)
            return labels, self._sent(part, labels, np.ones(len(part), bool))
        if not messages:
            return state, []
        targets, came, counts = grouped(*(joined([message[at] for message in messages]) for at in range(3)))
        order = np.lexsort((_codes(came), counts, targets))
        targets, came, counts = targets[order], came[order], counts[order]
        last = _last_of_each(targets)
        at, best, most = targets[last], came[last], counts[last]
        labels = state.astype(joined([state[:0], best[:0]]).dtype)
        own = labels[at]
        labels[at] = np.where(most > 1, best, np.maximum(best, own))
        changed = labels != state
        view.add("active", changed.sum())
        return labels, self._sent(part, labels, changed)

    @staticmethod
    def _sent(part: GraphPart, labels: Any, active: Any) -> list[Message]:
        sent: list[Message] = []
        for route in part.routes:
            chosen = active[route.source]
            if chosen.any():
                counts = np.ones(int(chosen.sum()), np.int64)
                found = grouped(route.target_of_each()[chosen], labels[route.source[chosen]], counts)
                sent.append((route.part, found))
        return sent

    def results(self, part: GraphPart, state: Any) -> Iterable[Any]:
        """Return ids and labels."""
        return zip(part.ids.tolist(), state.tolist(), strict=True)


class StrongestLabel(PartProgram):
    """Community detection: labels have scores, which get weaker the further they travel."""

    layout = PartLayout(both=True, values=True, weights=True)

    def __init__(self, delta: float) -> None:
        self._delta = delta

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Take the label with the greatest sum of scores."""
        view.add("active", 1)
        if state is None:
            labels, scores = _labels(part, "community detection"), np.ones(len(part))
            return (labels, scores), self._sent(part, labels, scores)
        labels, scores = state
        if not messages:
            return state, []
        columns = [joined([message[at] for message in messages]) for at in range(4)]
        targets, came, total, single = grouped(*columns[:3], greatest=columns[3])
        order = np.lexsort((-_codes(came), total, targets))
        targets, came, single = targets[order], came[order], single[order]
        last = _last_of_each(targets)
        at, best, score = targets[last], came[last], single[last]
        labels = labels.astype(joined([labels[:0], best[:0]]).dtype)
        scores = scores.copy()
        weaker = np.where(best != labels[at], self._delta / (view.number - 1), 0.0)
        labels[at], scores[at] = best, score - weaker
        return (labels, scores), self._sent(part, labels, scores)

    @staticmethod
    def _sent(part: GraphPart, labels: Any, scores: Any) -> list[Message]:
        return [(route.part, StrongestLabel._along(route, labels, scores)) for route in part.routes]

    @staticmethod
    def _along(route: Route, labels: Any, scores: Any) -> tuple[Any, ...]:
        score = scores[route.source] * route.weight
        return grouped(route.target_of_each(), labels[route.source], score, greatest=score)

    def results(self, part: GraphPart, state: Any) -> Iterable[Any]:
        """Return ids and labels."""
        return zip(part.ids.tolist(), state[0].tolist(), strict=True)

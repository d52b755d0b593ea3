"""A program on the parts of a graph, superstep by superstep, as a bulk iteration.

Each superstep is one co-group by part: the part, which stays where it is, with the state of the superstep before and the
messages to the part. So a superstep has one exchange, of arrays, and a checkpoint has the states and the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from funken import CoGroupFunction
from funken.dataset import DataSet, DataSetRuntimeContext, DoubleSumAggregator
from funken.errors import InvalidProgram
from funken.graph.columns.parts import GraphPart, PartLayout, Route, joined, keys_of, parts, value_of_each
from funken.graph.columns.triads import resolved, undirected_parts
from funken.graph.core import GraphBase

_STATE, _MESSAGE = 0, 1

Message = tuple[int, tuple[Any, ...]]
"""The number of a part, and arrays for it."""


@dataclass(frozen=True)
class SuperstepView:
    """A function's view of an iteration: the number of the superstep, and sums over all parts."""

    number: int
    runtime: DataSetRuntimeContext

    def add(self, name: str, value: float) -> None:
        """Add to a sum of this superstep."""
        self.runtime.get_iteration_aggregator(name).aggregate(float(value))

    def before(self, name: str) -> float:
        """Return a sum of the superstep before."""
        found = self.runtime.get_previous_iteration_aggregate(name)
        return 0.0 if found is None else float(found)


class PartProgram:
    """A program that runs on each part in a superstep. It must not keep anything of its own between supersteps."""

    layout = PartLayout()
    sums: tuple[str, ...] = ()
    """The names of sums over all parts."""
    converges = "active"
    """The sum that ends the iteration when it is ``below`` or less."""
    below = 0.0

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Return the new state and messages; the state is None in superstep 1."""
        raise NotImplementedError

    def results(self, part: GraphPart, state: Any) -> Iterable[Any]:
        """Return the records of a part at the end."""
        raise NotImplementedError

    def ended(self, superstep: int, total: float) -> bool:
        """Return True if the iteration has converged."""
        return total <= self.below


def run_program(graph: GraphBase, program: PartProgram, supersteps: int, name: str) -> DataSet:
    """Return the results of a program after its last superstep."""
    made = parts(graph, program.layout)
    begun = made.map(_begin).with_forwarded_fields("f0")
    iteration = begun.iterate(supersteps)
    for sum_name in program.sums:
        iteration.register_aggregator(sum_name, DoubleSumAggregator())
    iteration.register_aggregation_convergence_criterion(program.converges, DoubleSumAggregator(), program.ended)
    step = made.co_group(iteration).where(0).equal_to(0).using(_Step(program, name)).name(name)
    states = iteration.close_with(step).filter(_is_state)
    return made.co_group(states).where(0).equal_to(0).using(partial(_results, program)).name(f"{name}: results")


def _begin(part: Any) -> Any:
    return part[0], _STATE, None


def _is_state(record: Any) -> bool:
    return bool(record[1] == _STATE)


class _Step(CoGroupFunction[Any, Any, Any]):
    def __init__(self, program: PartProgram, name: str) -> None:
        self._program, self._name = program, name

    def open(self, context: DataSetRuntimeContext) -> None:
        """Learn which superstep it is."""
        self._view = SuperstepView(context.get_superstep_number(), context)

    def co_group(self, found: Iterable[Any], came: Iterable[Any]) -> Iterator[Any]:
        """Run a superstep of one part."""
        ((key, part),) = found
        state, messages = None, []
        for record in came:
            if record[1] == _STATE:
                state = record[2]
            else:
                messages.append(record[2])
        try:
            state, outgoing = self._program.step(part, state, messages, self._view)
        except TypeError as error:
            if "not supported between instances" not in str(error):
                raise
            raise InvalidProgram(
                f"{self._name}: the values of two vertices cannot be compared: {error}. Give all vertices values of one type."
            ) from error
        yield key, _STATE, state
        keys = keys_of(part.parts)
        for target, arrays in outgoing:
            yield keys[target], _MESSAGE, arrays


def _results(program: PartProgram, found: Iterable[Any], states: Iterable[Any]) -> Iterator[Any]:
    """Return the records of one part."""
    ((_, part),) = found
    ((_, _, state),) = states
    yield from program.results(part, state)


# ---- what programs are made of


def pushed(routes: list[Route], values: Any, reduce: Any, weigh: Any = None, active: Any = None) -> list[Message]:
    """Send the values of vertices along routes, reduced per target.

    ``reduce`` is a ufunc, ``weigh`` one that puts the value and the weight of an edge together. With ``active``, only the
    edges of those vertices count.

    >>> route = Route(0, np.array([4, 9]), np.array([0, 2]), np.array([0, 1, 1]), None)
    >>> [(part, [array.tolist() for array in arrays]) for part, arrays in pushed([route], np.array([5, 3]), np.minimum)]
    [(0, [[4, 9], [3, 3]])]
    >>> only = pushed([route], np.array([5, 3]), np.minimum, active=np.array([True, False]))
    >>> [array.tolist() for array in only[0][1]]
    [[4], [5]]
    """
    messages: list[Message] = []
    for route in routes:
        source, weight, targets, starts = route.source, route.weight, route.targets, route.starts
        if active is not None:
            chosen = active[source]
            counts = np.add.reduceat(chosen, starts, dtype=np.int64)
            filled = counts > 0
            if not filled.any():
                continue
            if not chosen.all():
                source, targets = source[chosen], targets[filled]
                weight = None if weight is None else weight[chosen]
                starts = np.concatenate([[0], np.cumsum(counts[filled])[:-1]])
        carried = values[source]
        if weigh is not None:
            carried = weigh(carried, weight)
        messages.append((route.part, (targets, reduce.reduceat(carried, starts))))
    return messages


def received(messages: list[tuple[Any, ...]], into: Any, reduce: Any) -> Any:
    """Reduce messages into an array, which is changed; a message has each target once.

    >>> received([(np.array([0, 2]), np.array([1, 2])), (np.array([2]), np.array([5]))], np.zeros(3, int), np.add).tolist()
    [1, 0, 7]
    """
    for targets, values in messages:
        into[targets] = reduce(into[targets], values)
    return into


# ---- Programs that propagate the least value: connected components, shortest paths, breadth-first search.


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
        """Take the messages, and send new values."""
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

    sums = ("sources",)
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

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Take the messages, and send new values; raise ``InvalidProgram`` if no part has the source."""
        if state is None:
            view.add("sources", int(_places(part.ids, self.source).sum()))
        elif view.number == 2 and len(part) and not view.before("sources"):
            raise InvalidProgram(
                f"the source {self.source!r} is no vertex of the graph, whose ids are such as {part.ids[:1].tolist()[0]!r}. "
                "Give an id of the graph, of the same type."
            )
        return super().step(part, state, messages, view)


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
    """Return a mask of the wanted id."""
    if ids.dtype == np.int64:
        return ids == wanted if isinstance(wanted, (int, float)) else np.zeros(len(ids), bool)
    return np.fromiter((each == wanted for each in ids.tolist()), bool, len(ids))


# ---- Programs of repeated sums: PageRank and HITS.


class Ranks(PartProgram):
    """PageRank. Superstep 1 counts the vertices, 2 sends the first ranks, every later one is an iteration."""

    sums = ("vertices", "dangling")
    converges = "change"

    def __init__(self, damping: float, threshold: float | None, zero_degree: bool) -> None:
        self._damping = damping
        self.below = -1.0 if threshold is None else threshold
        self._zero_degree = zero_degree

    def ended(self, superstep: int, total: float) -> bool:
        """Return True if the sum of changes is below the threshold; the first two supersteps change nothing."""
        return superstep > 2 and total < self.below

    def _counted(self, part: GraphPart) -> Any:
        return np.ones(len(part), bool) if self._zero_degree else (part.out_degree + part.in_degree) > 0

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Add up the messages, and send each rank in equal shares."""
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
        """Return True if an iteration has changed less than the threshold."""
        return superstep > 2 and superstep % 2 == 0 and total < self.below

    def step(
        self, part: GraphPart, state: Any, messages: list[tuple[Any, ...]], view: SuperstepView
    ) -> tuple[Any, list[Message]]:
        """Scale the last messages, and add up the new ones."""
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


# ---- Pairs of vertices with common neighbours: each vertex makes the pairs of its neighbours, which are summed per
# pair.


PAIRS = 1 << 22
"""Number of pairs that are made before they are summed."""


def common_neighbors(graph: GraphBase, by_degree: bool) -> DataSet:
    """Return ``(id, id, sum, degree, degree)`` for all pairs with a common neighbour.

    The sum counts the common neighbours; with ``by_degree``, one counts 1 / ln(its degree).
    """
    pairs = undirected_parts(graph).flat_map(partial(_pairs, by_degree)).name("pairs of neighbours")
    summed = pairs.group_by(0).reduce_group(_summed).name("common neighbours")
    return resolved(graph, summed, 2)


def _pairs(by_degree: bool, found: Any) -> Iterator[Any]:
    """Yield (key of the first one's part, numbers, numbers, sums)."""
    part: GraphPart = found[1]
    source = joined([route.source for route in part.routes])
    target = joined([route.target_of_each().astype(np.int64) * part.parts + route.part for route in part.routes])
    order = np.lexsort((target, source))
    source, target = source[order], target[order]
    ends = np.cumsum(part.out_degree)[source] if len(source) else source
    later = ends - np.arange(len(source)) - 1  # how many neighbours of the same vertex come behind
    bounds = np.concatenate([[0], np.cumsum(later)])
    weight = 1.0 / np.log(np.maximum(part.out_degree, 2)) if by_degree else np.ones(len(part))
    begin = 0
    keys = keys_of(part.parts)
    while begin < len(source):
        end = max(begin + 1, int(np.searchsorted(bounds, bounds[begin] + PAIRS, side="right")) - 1)
        counts = later[begin:end]
        first = np.repeat(np.arange(begin, end), counts)
        second = first + 1 + np.arange(len(first)) - np.repeat(bounds[begin:end] - bounds[begin], counts)
        one, other, sums = totals(target[first], target[second], weight[source[first]])
        for owner in range(part.parts):
            chosen = one % part.parts == owner
            if chosen.any():
                yield keys[owner], one[chosen], other[chosen], sums[chosen]
        begin = end


def totals(one: Any, other: Any, values: Any) -> tuple[Any, Any, Any]:
    """Sum values per pair.

    >>> [found.tolist() for found in totals(np.array([1, 1, 0]), np.array([2, 2, 1]), np.array([1.0, 2.0, 4.0]))]
    [[0, 1], [1, 2], [4.0, 3.0]]
    """
    if not len(one):
        return one, other, values
    order = np.lexsort((other, one))
    one, other, values = one[order], other[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], (one[1:] != one[:-1]) | (other[1:] != other[:-1])]))
    return one[starts], other[starts], np.add.reduceat(values, starts)


def _summed(group: Iterable[Any]) -> Iterator[Any]:
    records = list(group)
    yield totals(*(joined([record[place] for record in records]) for place in (1, 2, 3)))


# ---- Programs in which vertices take the label that is strongest among their neighbours.


def grouped(targets: Any, labels: Any, *sums: Any, greatest: Any = None) -> tuple[Any, ...]:
    """Return distinct (target, label) pairs in order, with sums, and with the greatest of an array.

    >>> from funken.graph.columns.parts import column
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

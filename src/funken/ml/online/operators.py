"""The operators of online learning: what learns, what predicts with the newest version, what evaluates.

A learner's kernel has ``learn(records)``, ``predict(records)`` and ``copy()``; it is the state that a checkpoint holds, beside
the records that wait for a full batch. One subtask learns, so the versions depend on the order of the records only.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from funken import BroadcastProcessFunction, CheckpointedFunction, ListStateDescriptor, MapStateDescriptor
from funken.errors import InvalidProgram
from funken.sdk import Operator, Timestamps, Values


class Kernel(Protocol):
    """A model that learns; the object changes."""

    def learn(self, records: list[Any]) -> None:
        """Learn a batch."""

    def predict(self, records: list[Any]) -> list[Any]:
        """Return a prediction for each record."""

    def copy(self) -> Kernel:
        """Return a model that this one's learning does not change."""


class ModelVersion(NamedTuple):
    """A model as it was after some batches: ``version`` counts them, ``records`` what it has learned from.

    >>> ModelVersion(2, 64, None).records
    64
    """

    version: int
    records: int
    model: Any


class Prediction(NamedTuple):
    """A record, what was predicted for it, and the version of the model that did.

    >>> Prediction((1.0, 2.0), 0, version=3).prediction
    0
    """

    record: Any
    prediction: Any
    version: int


class Evaluation(NamedTuple):
    """A metric over the records so far, each predicted before it was learned.

    >>> Evaluation(100, 0.93).value
    0.93
    """

    records: int
    value: float


class LearnOperator(Operator):
    """Learns, and emits a version after every ``every`` batches, and the last one when the input ends."""

    def __init__(self, kernel: Kernel, batch: int, every: int) -> None:
        self._kernel, self._batch, self._every = kernel, batch, every
        self._waiting: list[Any] = []
        self._version = self._records = self._emitted = 0

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Learn the batches that are full."""
        versions: list[ModelVersion] = []
        times: list[int] | None = None if timestamps is None else []
        for place, value in enumerate(values):
            self._waiting.append(value)
            if len(self._waiting) == self._batch:
                self._learn()
                if self._version % self._every == 0:
                    versions.append(self._published())
                    if times is not None and timestamps is not None:
                        times.append(timestamps[place])
        if versions:
            self.output.emit(versions, times)

    def _learn(self) -> None:
        self._kernel.learn(self._waiting)
        self._records += len(self._waiting)
        self._waiting = []
        self._version += 1

    def _published(self) -> ModelVersion:
        self._emitted = self._version
        return ModelVersion(self._version, self._records, self._kernel.copy())

    def finish(self) -> None:
        """Learn what waits, and emit the last version."""
        if self._waiting:
            self._learn()
        if self._version > self._emitted:
            self.output.emit([self._published()], None)

    def snapshot(self) -> Any:
        """Return the model, what waits, and the counts, as they are now."""
        return pickled((self._kernel, self._waiting, self._version, self._records, self._emitted), self._kernel)

    def restore(self, snapshot: Any) -> None:
        """Go on."""
        self._kernel, self._waiting, self._version, self._records, self._emitted = pickle.loads(snapshot)


def pickled(state: Any, kernel: Any) -> bytes:
    """Serialise the state of a learner; raise ``InvalidProgram`` if its model cannot be."""
    try:
        return pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise InvalidProgram(
            f"the model of the learner {type(kernel).__name__} cannot be pickled: {type(error).__name__}: {error}. "
            "Keep lambdas, locks and files out of it."
        ) from error


class EvaluateOperator(Operator):
    """Predicts each record before it learns it, and emits the metric after every ``every`` records and at the end."""

    def __init__(self, kernel: Kernel, metric: Any, label: Any, batch: int, every: int) -> None:
        self._kernel, self._metric, self._label, self._batch, self._every = kernel, metric, label, batch, every
        self._waiting: list[Any] = []
        self._records = 0

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Predict, measure, learn."""
        found: list[Evaluation] = []
        times: list[int] | None = None if timestamps is None else []
        for place, value in enumerate(values):
            (predicted,) = self._kernel.predict([value])
            if predicted is not None:
                self._metric.update(self._label(value), predicted)
            self._records += 1
            self._waiting.append(value)
            if len(self._waiting) == self._batch:
                self._kernel.learn(self._waiting)
                self._waiting = []
            if self._records % self._every == 0:
                found.append(Evaluation(self._records, self._metric.get()))
                if times is not None and timestamps is not None:
                    times.append(timestamps[place])
        if found:
            self.output.emit(found, times)

    def finish(self) -> None:
        """Emit the metric of all records."""
        if self._records % self._every:
            self.output.emit([Evaluation(self._records, self._metric.get())], None)

    def snapshot(self) -> Any:
        """Return the model, the metric, what waits, and the count."""
        return pickled((self._kernel, self._metric, self._waiting, self._records), self._kernel)

    def restore(self, snapshot: Any) -> None:
        """Go on."""
        self._kernel, self._metric, self._waiting, self._records = pickle.loads(snapshot)


@dataclass(frozen=True)
class LearnSpec:
    """Makes what learns."""

    kernel: bytes
    batch: int
    every: int

    def build(self) -> Operator:
        """Make the logic."""
        return LearnOperator(pickle.loads(self.kernel), self.batch, self.every)


@dataclass(frozen=True)
class EvaluateSpec:
    """Makes what evaluates."""

    kernel: bytes
    metric: bytes
    label: Any
    batch: int
    every: int

    def build(self) -> Operator:
        """Make the logic."""
        return EvaluateOperator(
            pickle.loads(self.kernel), pickle.loads(self.metric), self.label, self.batch, self.every
        )


NEWEST: MapStateDescriptor[str, ModelVersion] = MapStateDescriptor("newest model")
_WAITING: ListStateDescriptor[Any] = ListStateDescriptor("records before the first model")


class PredictFunction(BroadcastProcessFunction, CheckpointedFunction):
    """Predicts with the newest version; records before the first one wait for it."""

    def initialize_state(self, context: Any) -> None:
        """Find the records that wait."""
        self._waiting = context.get_operator_state_store().get_list_state(_WAITING)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Prediction]:
        """Predict, or wait."""
        newest = ctx.get_broadcast_state(NEWEST).get("")
        if newest is None:
            self._waiting.add(value)
            return ()
        return predictions([value], newest)

    def process_broadcast_element(self, value: ModelVersion, ctx: Any) -> Iterator[Prediction]:
        """Take a version; the first one is what the waiting records get."""
        state = ctx.get_broadcast_state(NEWEST)
        newest = state.get("")
        if newest is None or value.version > newest.version:
            state.put("", value)
        waiting = self._waiting.get()
        self._waiting.clear()
        yield from predictions(waiting, value)


def predictions(records: list[Any], version: ModelVersion) -> list[Prediction]:
    """Return the predictions of a version."""
    found = version.model.predict(records) if records else []
    return [Prediction(record, each, version.version) for record, each in zip(records, found, strict=True)]

"""Models of river on streams: they learn from single records; drift detectors and anomaly scores."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from funken import DataStream, KeyedProcessFunction, KeyedStream, ValueStateDescriptor
from funken.errors import InvalidProgram
from funken.ml.data.blocks import FieldLayout
from funken.ml.data.demands import FieldName
from funken.ml.online.learners import LabelOf, OnlineLearner
from funken.ml.online.operators import Kernel, pickled


class RiverLearner(OnlineLearner):
    """A model of river: classifier, regressor, clusterer, anomaly detector, transformer, or a pipeline of these.

    Records become river's dicts by field name, or by position; ``label`` is the field of the label, if the model needs one.

    >>> from river import linear_model
    >>> from funken.testing import local
    >>> points = local([{"x": float(n), "y": 2.0 * n} for n in range(50)])
    >>> learner = RiverLearner(linear_model.LinearRegression(), label="y")
    >>> [version.records for version in learner.learn(points, every=20).execute_and_collect(limit=3)]
    [20, 40, 50]
    """

    batch_size = 1

    def __init__(
        self, model: Any, *, label: FieldName | None = None, features: Iterable[FieldName] | None = None
    ) -> None:
        self.model = model
        self.label = label
        self.features = features

    def start(self) -> Kernel:
        """Return a copy of the model."""
        if not hasattr(self.model, "learn_one"):
            raise InvalidProgram(f"RiverLearner: {self.model!r} has no learn_one(). Give a model of river.")
        return RiverKernel(copy.deepcopy(self.model), self.label, self.features)


class RiverKernel:
    """A model of river, and which fields are what."""

    def __init__(self, model: Any, label: FieldName | None, features: Iterable[FieldName] | None) -> None:
        self.model = model
        self._label = None if label is None else LabelOf(label)
        self._layout = FieldLayout(None if features is None else tuple(features), label)
        self._label_name = label
        methods = ("predict_one", "score_one", "transform_one")
        found = [name for name in methods if hasattr(model, name)]
        if hasattr(model, "score_one") and not hasattr(model, "predict_proba_one"):
            found = ["score_one"]
        self._method = found[0] if found else "predict_one"

    def _x(self, record: Any) -> dict[Any, Any]:
        features = self._layout.features
        if isinstance(record, Mapping):
            names: Iterable[Any] = record if features is None else features
            return {name: record[name] for name in names if name != self._label_name}
        fields = getattr(record, "_fields", None) or range(len(record))
        names = fields if features is None else features
        label = self._label_name
        if isinstance(label, int) and label < 0:
            label += len(record)
        return {
            name: getattr(record, name) if isinstance(name, str) else record[name] for name in names if name != label
        }

    def learn(self, records: list[Any]) -> None:
        """Learn each record."""
        model, label = self.model, self._label
        for record in records:
            if label is None:
                model.learn_one(self._x(record))
            else:
                model.learn_one(self._x(record), label(record))

    def predict(self, records: list[Any]) -> list[Any]:
        """Return the prediction, score or transformed record of each."""
        call = getattr(self.model, self._method)
        return [call(self._x(record)) for record in records]

    def copy(self) -> RiverKernel:
        """Return a copy that does not learn on."""
        return copy.deepcopy(self)


class Drift(NamedTuple):
    """The record at which a change was seen, and how many records of its key (or stream) there were till then.

    >>> Drift("machine 1", 0.7, records=320).key
    'machine 1'
    """

    key: Any
    record: Any
    records: int


class DriftDetector:
    """Finds changes in a stream of numbers with a detector of river (ADWIN, KSWIN, Page-Hinkley), for all or for each key.

    >>> from river import drift
    >>> from funken.testing import local
    >>> errors = local([0] * 300 + [1] * 300)
    >>> found = DriftDetector(drift.ADWIN()).detect(errors).execute_and_collect(limit=1)
    >>> 300 < found[0].records < 400
    True
    """

    def __init__(self, detector: Any, value: FieldName | None = None) -> None:
        if not hasattr(detector, "drift_detected"):
            raise InvalidProgram(f"DriftDetector: {detector!r} is no drift detector of river.")
        pickled(detector, detector)
        self._detector = detector
        self._value = value

    def detect(self, stream: DataStream[Any]) -> DataStream[Drift]:
        """Return a ``Drift`` for each change; of a keyed stream, each key has a detector of its own."""
        if isinstance(stream, KeyedStream):
            return stream.process(Detect(self._detector, self._value)).name("detect drift")
        keyed = stream.key_by(AllTogether())
        return keyed.process(Detect(self._detector, self._value)).force_non_parallel().name("detect drift")


class AllTogether:
    """One key for all records."""

    def __call__(self, record: Any) -> str:
        """Return it."""
        return ""


class Detect(KeyedProcessFunction):
    """A detector per key, in keyed state."""

    def __init__(self, detector: Any, value: FieldName | None) -> None:
        self._detector = detector
        self._value = None if value is None else LabelOf(value)

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        self._state = runtime_context.get_state(ValueStateDescriptor("detector"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Drift]:
        """Update the key's detector."""
        detector, records = self._state.value() or (copy.deepcopy(self._detector), 0)
        detector.update(value if self._value is None else self._value(value))
        records += 1
        self._state.update((detector, records))
        if detector.drift_detected:
            yield Drift(ctx.get_current_key(), value, records)

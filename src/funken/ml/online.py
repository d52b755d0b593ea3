"""Online learning: Flink's online algorithms on NumPy arrays, and river's models.

An online learner has ``learn(stream)``, which gives a stream of ``ModelVersion``; ``predict(stream, versions)``, which joins a
stream with the newest of them; ``evaluate(stream, metric)``, which predicts each record before it learns it; and
``predict_and_learn(keyed)``, which has a model for every key.
"""

from __future__ import annotations

import copy
import pickle
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import BaseEstimator

from funken import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from funken.errors import InvalidProgram
from funken.ml.data import Demands, FieldLayout, FieldName, block_of
from funken.sdk import Operator, OperatorCall, Timestamps, Values, load_state
from funken.types.callables import S, T

# ---- The operators of online learning: what learns, what predicts with the newest version, what evaluates.
#
# A learner's kernel has ``learn(records)``, ``predict(records)`` and ``copy()``; it is the state that a checkpoint
# holds, beside the records that wait for a full batch. One subtask learns, so the versions depend on the order of
# the records only.


class Kernel(Protocol):
    """A model that learns; the object changes."""

    def learn(self, records: list[Any]) -> None:
        """Learn a batch."""

    def predict(self, records: list[Any]) -> list[Any]:
        """Return a prediction for each record."""

    def copy(self) -> Kernel:
        """Return a model that this one's learning does not change."""


class ModelVersion(NamedTuple):
    """A model after some batches: ``version`` counts them, ``records`` the records that it has learned from.

    >>> ModelVersion(2, 64, None).records
    64
    """

    version: int
    records: int
    model: Any


class Prediction(NamedTuple, typing.Generic[T]):
    """A record, its prediction, and the version of the model that made it.

    >>> Prediction((1.0, 2.0), 0, version=3).prediction
    0
    """

    record: T
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

    def __init__(self, kernel: bytes, batch: int, every: int) -> None:
        self._kernel, self._batch, self._every = pickle.loads(kernel), batch, every
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
        """Learn waiting records, and emit the last version."""
        if self._waiting:
            self._learn()
        if self._version > self._emitted:
            self.output.emit([self._published()], None)

    def snapshot(self) -> Any:
        """Return the model, the waiting records, and the counts, as they are now."""
        return pickled((self._kernel, self._waiting, self._version, self._records, self._emitted), self._kernel)

    def restore(self, snapshot: Any) -> None:
        """Go on."""
        self._kernel, self._waiting, self._version, self._records, self._emitted = load_state(snapshot)


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

    def __init__(self, kernel: bytes, metric: bytes, label: Any, batch: int, every: int) -> None:
        self._kernel, self._metric = pickle.loads(kernel), pickle.loads(metric)
        self._label, self._batch, self._every = label, batch, every
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
        """Return the model, the metric, the waiting records, and the count."""
        return pickled((self._kernel, self._metric, self._waiting, self._records), self._kernel)

    def restore(self, snapshot: Any) -> None:
        """Go on."""
        self._kernel, self._metric, self._waiting, self._records = load_state(snapshot)


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
        """Take a version; the waiting records get the first one."""
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


class Metric(Protocol):
    """A metric of river, or an object like it."""

    def update(self, y: Any, predicted: Any, /) -> object:
        """Take the truth and the prediction of a record."""
        ...

    def get(self) -> float:
        """Return the metric."""
        ...


class OnlineLearner(BaseEstimator):
    """The base of online learners; a subclass makes a kernel with ``start()``.

    >>> from funken.testing import local
    >>> learner = OnlineStandardScaler(batch_size=2)
    >>> points = local([(1.0,), (3.0,)])
    >>> [(pair.record, pair.version) for pair in learner.predict(points, learner.learn(points)).execute_and_collect(limit=2)]
    [((1.0,), 1), ((3.0,), 1)]
    """

    batch_size: int
    label: FieldName | None = None

    def start(self) -> Kernel:
        """Return a model that has learned nothing."""
        raise NotImplementedError

    def _begin(self, every: int) -> bytes:
        for name, value in (("batch_size", self.batch_size), ("every", every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidProgram(
                    f"{type(self).__name__}: {name} is {value!r}, but has to be a whole number above 0."
                )
        kernel = self.start()
        return pickled(kernel, kernel)

    def learn(self, stream: DataStream[Any], every: int = 1) -> DataStream[ModelVersion]:
        """Return the versions of the model: one after every ``every`` batches, and the last one when the stream ends.

        One task learns, record by record in the order in which they come.
        """
        spec = OperatorCall(LearnOperator, (self._begin(every), self.batch_size, every))
        return stream.transform("learn", spec).force_non_parallel()

    def predict(self, stream: DataStream[S], versions: DataStream[ModelVersion]) -> DataStream[Prediction[S]]:
        """Return a ``Prediction`` for each record, by the newest version; records before the first one wait for it."""
        joined = stream.connect(versions.broadcast(NEWEST))
        return joined.process(PredictFunction()).name("predict")

    def evaluate(self, stream: DataStream[Any], metric: Metric, every: int = 100) -> DataStream[Evaluation]:
        """Return a metric over the records so far (prequential).

        It is one of river, or has its methods ``update(y, predicted)`` and ``get()``.
        """
        if self.label is None:
            raise InvalidProgram(f"{type(self).__name__}: evaluate() needs labels. Name the field: label=...")
        kernel = self._begin(every)
        measured = pickled(metric, metric)
        spec = OperatorCall(EvaluateOperator, (kernel, measured, LabelOf(self.label), self.batch_size, every))
        return stream.transform("evaluate", spec).force_non_parallel()

    def predict_and_learn(self, keyed: KeyedStream[S, Any]) -> DataStream[Prediction[S]]:
        """Return a ``Prediction`` for each record of a keyed stream, by its key's model before that learns the record."""
        self._begin(1)
        return keyed.process(PredictAndLearn(self)).name("predict and learn")


class PredictAndLearn(KeyedProcessFunction):
    """A model per key, in keyed state."""

    def __init__(self, learner: OnlineLearner) -> None:
        self._learner = learner

    def open(self, runtime_context: Any) -> None:
        """Find the state."""
        self._state = runtime_context.get_state(ValueStateDescriptor("model"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Prediction]:
        """Predict, then learn."""
        kernel, waiting, version = self._state.value() or (self._learner.start(), [], 0)
        (predicted,) = kernel.predict([value])
        waiting.append(value)
        if len(waiting) == self._learner.batch_size:
            kernel.learn(waiting)
            waiting, version = [], version + 1
        self._state.update((kernel, waiting, version))
        yield Prediction(value, predicted, version)


class LabelOf:
    """Finds the label of a record."""

    def __init__(self, label: FieldName) -> None:
        self._label = label

    def __call__(self, record: Any) -> Any:
        """Return it."""
        if isinstance(self._label, str) and not isinstance(record, dict):
            return getattr(record, self._label)
        return record[self._label]


class ArrayKernel:
    """A kernel on arrays; the arrays are replaced, never changed."""

    _learner = "OnlineLearner"
    _finite = True

    def __init__(self, layout: FieldLayout) -> None:
        self._asked = layout
        self._features: FieldLayout | None = None

    def _block(self, records: list[Any], width: int | None, method: str = "predict", labelled: bool = False) -> Any:
        """Make a block of records; ``width`` is the number of features that the model has, if it has any yet."""
        caller = f"{self._learner}.{method}()"
        if self._features is None:
            self._features = self._asked.resolve(records[0], caller)
        layout = self._features
        if not labelled:
            layout = FieldLayout(layout.features)
        demands = Demands(caller, numbers=True, finite=self._finite, total=width, labels="number" if labelled else None)
        return block_of(records, layout, demands if width is not None else layout.demands(records[0], demands))

    def copy(self) -> Any:
        """Return a copy that shares the arrays."""
        return copy.copy(self)


class OnlineKMeans(OnlineLearner):
    """Moves each centre towards the mean of its points of a batch (Flink ML's ``OnlineKMeans``).

    The weight of the past is multiplied by ``decay`` with every batch: 1 forgets nothing, 0 everything. ``init`` are the first
    centres, or None: the first ``n_clusters`` points; ``init_weights`` are the weights of their past (default: 0).

    >>> from funken.testing import local
    >>> points = local([(10.0, 0.0), (10.0, 0.3), (10.3, 0.0), (-10.0, 0.0), (-10.0, 0.6), (-10.6, 0.0)])
    >>> learner = OnlineKMeans(2, init=[[1.0, 0.0], [-1.0, 0.0]], batch_size=6)
    >>> version, records, model = learner.learn(points).execute_and_collect(limit=1)[0]
    >>> version, records, model.centers.round(3).tolist()
    (1, 6, [[10.1, 0.1], [-10.2, 0.2]])
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        decay: float = 0.0,
        init: Any = None,
        init_weights: Any = None,
        batch_size: int = 32,
        features: Iterable[FieldName] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.decay = decay
        self.init = init
        self.init_weights = init_weights
        self.batch_size = batch_size
        self.features = features

    def start(self) -> Kernel:
        """Return a model with the first centres."""
        init = None if self.init is None else np.asarray(self.init, dtype=np.float64)
        if not 0 <= self.decay <= 1 or (init is not None and len(init) != self.n_clusters):
            raise InvalidProgram("OnlineKMeans needs a decay from 0 to 1, and n_clusters centres in init.")
        if init is None and self.batch_size < self.n_clusters:
            raise InvalidProgram("OnlineKMeans: a batch without init has to have n_clusters points. Raise batch_size.")
        kernel = KMeansKernel(layout_of(self), init, self.n_clusters, self.decay)
        if self.init_weights is not None:
            weights = np.asarray(self.init_weights, dtype=np.float64)
            if init is None or weights.shape != (self.n_clusters,) or not (weights >= 0).all():
                raise InvalidProgram(
                    "OnlineKMeans: init_weights needs init, and a weight of 0 or more for each centre."
                )
            kernel.weights = weights
        return kernel


class KMeansKernel(ArrayKernel):
    """Centres with weights."""

    _learner = "OnlineKMeans"

    def __init__(self, layout: FieldLayout, init: Any, k: int, decay: float) -> None:
        super().__init__(layout)
        self.centers = init
        self.weights = np.zeros(k)
        self._decay = decay

    def learn(self, records: list[Any]) -> None:
        """Move the centres."""
        X = self._block(records, None if self.centers is None else self.centers.shape[1], "learn").X
        k = len(self.weights)
        if self.centers is None:
            if len(X) < k:
                raise InvalidProgram(
                    f"OnlineKMeans: {len(X)} points cannot begin {k} clusters. Give init, or more points."
                )
            self.centers = X[:k].copy()
        places = self._places(X)
        counts = np.bincount(places, minlength=k)
        sums = np.zeros_like(self.centers)
        np.add.at(sums, places, X)
        weights = self.weights * self._decay + counts
        share = np.divide(counts, weights, out=np.zeros(k), where=counts > 0)[:, None]
        means = np.divide(sums, counts[:, None], out=np.zeros_like(sums), where=counts[:, None] > 0)
        self.centers = (1 - share) * self.centers + share * means
        self.weights = weights

    def _places(self, X: Any) -> Any:
        return ((X[:, None, :] - self.centers[None]) ** 2).sum(axis=2).argmin(axis=1)

    def predict(self, records: list[Any]) -> list[Any]:
        """Return the nearest centre of each; None before there are centres."""
        if self.centers is None:
            return [None] * len(records)
        found: list[Any] = self._places(self._block(records, self.centers.shape[1]).X).tolist()
        return found


class OnlineLogisticRegression(OnlineLearner):
    """Logistic regression by FTRL-proximal, a step per batch (Flink ML's ``OnlineLogisticRegression``; no intercept).

    Labels are 0 and 1. ``l1`` is ``elastic_net * reg``, ``l2`` the rest of ``reg``.

    >>> from funken.testing import local
    >>> points = local([((0.1, 2.0), 0), ((11.0, 12.0), 1)])
    >>> learner = OnlineLogisticRegression(batch_size=2, init=[0.2, 0.3], label=1)
    >>> learner.learn(points).execute_and_collect(limit=1)[0].model.coef.round(3).tolist()
    [0.014, 0.173]
    """

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 0.1,
        reg: float = 0.0,
        elastic_net: float = 0.0,
        init: Any = None,
        batch_size: int = 32,
        label: FieldName = "label",
        features: Iterable[FieldName] | None = None,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.reg = reg
        self.elastic_net = elastic_net
        self.init = init
        self.batch_size = batch_size
        self.label = label
        self.features = features

    def start(self) -> Kernel:
        """Return a model with the first coefficients."""
        if not self.alpha > 0 or self.beta < 0 or self.reg < 0 or not 0 <= self.elastic_net <= 1:
            raise InvalidProgram(
                "OnlineLogisticRegression needs alpha > 0, beta and reg >= 0, and elastic_net from 0 to 1."
            )
        init = None if self.init is None else np.asarray(self.init, dtype=np.float64)
        l1 = self.elastic_net * self.reg
        return FtrlKernel(layout_of(self), init, self.alpha, self.beta, l1, self.reg - l1)


class FtrlKernel(ArrayKernel):
    """Coefficients, with the sums of FTRL."""

    _learner = "OnlineLogisticRegression"

    def __init__(self, layout: FieldLayout, init: Any, alpha: float, beta: float, l1: float, l2: float) -> None:
        super().__init__(layout)
        self.coef = init
        self._z = self._n = None if init is None else np.zeros(len(init))
        self._alpha, self._beta, self._l1, self._l2 = alpha, beta, l1, l2

    def learn(self, records: list[Any]) -> None:
        """Take a step."""
        block = self._block(records, None if self.coef is None else len(self.coef), "learn", labelled=True)
        X, y = block.X, np.asarray(block.y, dtype=np.float64)
        if not np.isin(y, (0.0, 1.0)).all():
            raise InvalidProgram("OnlineLogisticRegression: a label is neither 0 nor 1.")
        if self.coef is None or self._z is None or self._n is None:
            self.coef = self._z = self._n = np.zeros(X.shape[1])
        chance = 0.5 * (1 + np.tanh(X @ self.coef / 2))
        g = X.T @ (chance - y) / len(y)
        n = self._n + g * g
        z = self._z + g - (np.sqrt(n) - np.sqrt(self._n)) / self._alpha * self.coef
        scale = (self._beta + np.sqrt(n)) / self._alpha + self._l2
        self.coef = np.where(np.abs(z) <= self._l1, 0.0, (np.sign(z) * self._l1 - z) / scale)
        self._z, self._n = z, n

    def predict(self, records: list[Any]) -> list[Any]:
        """Return the class of each, 0 or 1; None before the first step."""
        return [None if chance is None else int(chance >= 0.5) for chance in self.predict_proba(records)]

    def predict_proba(self, records: list[Any]) -> list[Any]:
        """Return the probability of 1."""
        if self.coef is None:
            return [None] * len(records)
        found: list[Any] = (0.5 * (1 + np.tanh(self._block(records, len(self.coef)).X @ self.coef / 2))).tolist()
        return found


class OnlineStandardScaler(OnlineLearner):
    """Centres and scales by the statistics of all records so far (sample deviation, as Flink ML's ``OnlineStandardScaler``).

    >>> from funken.testing import local
    >>> learner = OnlineStandardScaler(batch_size=3)
    >>> versions = learner.learn(local([(-2.5, 9.0), (1.4, -5.0), (2.0, -1.0)]))
    >>> versions.execute_and_collect(limit=1)[0].model.mean.round(6).tolist()
    [0.3, 1.0]
    """

    def __init__(
        self, *, with_mean: bool = True, with_std: bool = True, batch_size: int = 32, features: Any = None
    ) -> None:
        self.with_mean = with_mean
        self.with_std = with_std
        self.batch_size = batch_size
        self.features = features

    def start(self) -> Kernel:
        """Return a model that has seen nothing."""
        return ScalerKernel(layout_of(self), self.with_mean, self.with_std)


class ScalerKernel(ArrayKernel):
    """Moments so far."""

    _learner, _finite = "OnlineStandardScaler", False

    def __init__(self, layout: FieldLayout, with_mean: bool, with_std: bool) -> None:
        super().__init__(layout)
        self._moments: Any = None
        self._with_mean, self._with_std = with_mean, with_std

    def learn(self, records: list[Any]) -> None:
        """Add the moments of a batch."""
        from funken.ml.preprocessing.transformers import Moments  # noqa: PLC0415 - loads SciPy

        some = Moments.of(self._block(records, None if self._moments is None else len(self.mean), "learn").X)
        self._moments = some if self._moments is None else self._moments + some

    @property
    def mean(self) -> Any:
        """Return the mean of every feature."""
        return self._moments.mean

    @property
    def std(self) -> Any:
        """Return the sample deviation of every feature; 0 of one record."""
        return np.sqrt(self._moments.squares / np.maximum(self._moments.weight - 1, 1))

    def predict(self, records: list[Any]) -> list[Any]:
        """Return each record as a scaled vector; None before the first batch."""
        if self._moments is None:
            return [None] * len(records)
        X = self._block(records, len(self.mean)).X
        X = X - self.mean if self._with_mean else X
        scale = np.where(self.std == 0, 1.0, self.std) if self._with_std else 1.0
        return list(X / scale)


def layout_of(learner: Any) -> FieldLayout:
    """Return the fields of a learner."""
    features = None if learner.features is None else tuple(learner.features)
    return FieldLayout(features, learner.label)


# ---- Models of river on streams: they learn from single records; drift detectors and anomaly scores.


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
        if isinstance(model, type):
            raise InvalidProgram(f"RiverLearner: {model.__name__} is a class. Give an object: {model.__name__}().")
        self.model = model
        self.label = label
        self.features = features

    def start(self) -> Kernel:
        """Return a copy of the model."""
        if not hasattr(self.model, "learn_one"):
            raise InvalidProgram(f"RiverLearner: {self.model!r} has no learn_one(). Give a model of river.")
        return RiverKernel(copy.deepcopy(self.model), self.label, self.features)


class RiverKernel:
    """A model of river, and the roles of the fields."""

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


class Drift(NamedTuple, typing.Generic[T]):
    """The record at which a change was seen, and the number of records of its key (or stream) till then.

    >>> Drift("machine 1", 0.7, records=320).key
    'machine 1'
    """

    key: Any
    record: T
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

    def detect(self, stream: DataStream[S]) -> DataStream[Drift[S]]:
        """Return a ``Drift`` for each change; of a keyed stream, each key has a detector of its own."""
        if isinstance(stream, KeyedStream):
            return stream.process(Detect(self._detector, self._value)).name("detect drift")
        keyed = stream.key_by(lambda record: "")
        return keyed.process(Detect(self._detector, self._value)).force_non_parallel().name("detect drift")


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

"""What learns: Flink's online algorithms on NumPy arrays, and river's models.

An online learner has ``learn(stream)``, which gives a stream of ``ModelVersion``; ``predict(stream, versions)``, which joins a
stream with the newest of them; ``evaluate(stream, metric)``, which predicts each record before it learns it; and
``predict_and_learn(keyed)``, which has a model for every key.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from funken import DataStream, KeyedProcessFunction, KeyedStream, ValueStateDescriptor
from funken.errors import InvalidProgram
from funken.ml.data.blocks import FieldLayout, block_of
from funken.ml.data.demands import Demands, FieldName
from funken.ml.online import operators
from funken.ml.online.operators import Evaluation, Kernel, ModelVersion, Prediction


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
        return operators.pickled(kernel, kernel)

    def learn(self, stream: DataStream[Any], every: int = 1) -> DataStream[ModelVersion]:
        """Return the versions of the model: one after every ``every`` batches, and the last one when the stream ends.

        One task learns, record by record in the order in which they come.
        """
        spec = operators.LearnSpec(self._begin(every), self.batch_size, every)
        return stream.transform("learn", spec).force_non_parallel()

    def predict(self, stream: DataStream[Any], versions: DataStream[ModelVersion]) -> DataStream[Prediction]:
        """Return a ``Prediction`` for each record, by the newest version; records before the first one wait for it."""
        joined = stream.connect(versions.broadcast(operators.NEWEST))
        return joined.process(operators.PredictFunction()).name("predict")

    def evaluate(self, stream: DataStream[Any], metric: Any, every: int = 100) -> DataStream[Evaluation]:
        """Return a metric over the records so far (prequential).

        It is one of river, or has its methods ``update(y, predicted)`` and ``get()``.
        """
        if self.label is None:
            raise InvalidProgram(f"{type(self).__name__}: evaluate() needs labels. Name the field: label=...")
        kernel = self._begin(every)
        measured = operators.pickled(metric, metric)
        spec = operators.EvaluateSpec(kernel, measured, LabelOf(self.label), self.batch_size, every)
        return stream.transform("evaluate", spec).force_non_parallel()

    def predict_and_learn(self, keyed: KeyedStream[Any, Any]) -> DataStream[Prediction]:
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
        from funken.ml.preprocessing.statistics import Moments  # noqa: PLC0415 - loads SciPy

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

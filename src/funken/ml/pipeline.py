"""Pipelines over distributed data, and splits of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn import model_selection, pipeline

from funken import DataStream
from funken.dataset import DataSet, MapPartitionFunction
from funken.errors import InvalidProgram
from funken.ml.base import DistributedClassifier, DistributedEstimator, DistributedRegressor, DistributedTransformer
from funken.ml.data.sources import BlockSet, is_distributed


class EstimatorPipeline(DistributedEstimator, pipeline.Pipeline):
    """scikit-learn's ``Pipeline``, which also fits its steps to distributed data, one after the other; ``funken.ml.Pipeline``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.ml import LogisticRegression, StandardScaler
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> points = env.from_elements((0.0, "a"), (1.0, "a"), (8.0, "b"), (9.0, "b"))
    >>> model = EstimatorPipeline([("scale", StandardScaler()), ("classify", LogisticRegression())]).fit(points, y=1)
    >>> sorted(model.predict(points).collect())[0], model.score(points, y=1), model.predict([[7.0]]).tolist()
    (((0.0, 'a'), 'a'), 1.0, ['b'])
    """

    def get_model_data(self) -> dict[str, Any]:
        """Refuse: the fitted attributes are those of the steps."""
        raise InvalidProgram(
            "Pipeline.get_model_data(): a pipeline has no fitted attributes. Ask its steps, or use save()."
        )

    def fit(self, X: Any, y: Any = None, *, features: Iterable[str | int] | None = None, **given: Any) -> Any:
        """Fit all steps."""
        return super().fit(X, y, features=features, **given)

    def _fit_blocks(self, blocks: BlockSet) -> None:
        whole = blocks
        for at, (name, step) in enumerate(self.steps):
            if step is None or step == "passthrough":
                continue
            if not isinstance(step, DistributedEstimator):
                raise InvalidProgram(
                    f"the step {name!r} of the pipeline is a {type(step).__name__}, which fits arrays only. Take "
                    "its class from funken.ml, or fit the pipeline to a sample."
                )
            step.fit(blocks)
            if at < len(self.steps) - 1:
                if not isinstance(step, DistributedTransformer):
                    raise InvalidProgram(f"the step {name!r} is not the last one, and has no transform().")
                blocks = step.transform(blocks)
        self.fields_ = whole.fields

    def _kind(self) -> str:
        return str(self.steps[-1][1]._kind())

    def predict(self, X: Any, **given: Any) -> Any:
        """Predict for arrays, or for distributed data as the last step does."""
        if is_distributed(X):
            return self._spread(X, "predict", "prediction", self._kind)
        return pipeline.Pipeline.predict(self, X, **given)

    def predict_proba(self, X: Any, **given: Any) -> Any:
        """Return probabilities."""
        if is_distributed(X):
            return self._spread(X, "predict_proba", "probability", lambda: "array<double>")
        return pipeline.Pipeline.predict_proba(self, X, **given)

    def transform(self, X: Any, **given: Any) -> Any:
        """Transform with all steps."""
        if is_distributed(X):
            return self._spread(X, "transform", "features_out", lambda: "array<double>")
        return pipeline.Pipeline.transform(self, X, **given)

    def fit_transform(self, X: Any, y: Any = None, **given: Any) -> Any:
        """Fit, then transform."""
        return self.fit(X, y, **given).transform(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, **given: Any) -> float:
        """Return the score of the last step: accuracy, or R squared."""
        if not is_distributed(X):
            return float(pipeline.Pipeline.score(self, X, y, sample_weight, **given))
        last = self.steps[-1][1]
        kind = DistributedClassifier if isinstance(last, DistributedClassifier) else DistributedRegressor
        return kind.score(self, X, y)


def make_pipeline(*steps: Any) -> EstimatorPipeline:
    """Make a pipeline whose steps are named by their classes.

    >>> from funken.ml import StandardScaler
    >>> [name for name, _ in make_pipeline(StandardScaler()).steps]
    ['standardscaler']
    """
    return EstimatorPipeline(pipeline.make_pipeline(*steps).steps)


class Draw(MapPartitionFunction):
    """Puts each record into the test set or not, by a generator of its task: the same in every run over the same partitions."""

    def __init__(self, share: float, seed: int, test: bool) -> None:
        self._share, self._seed, self._test = share, seed, test

    def open(self, runtime_context: Any) -> None:
        """Find the task."""
        self._task = runtime_context.get_index_of_this_subtask()

    def map_partition(self, values: Iterable[Any]) -> Iterable[Any]:
        """Keep those of one set."""
        draw, share, test = np.random.default_rng([self._seed, self._task]).random, self._share, self._test
        return (value for value in values if (draw() < share) is test)


def train_test_split(*data: Any, test_size: float = 0.25, random_state: int | None = None, **given: Any) -> list[Any]:
    """Split arrays exactly, as scikit-learn; or a ``DataSet`` (each record by chance), or a Spark ``DataFrame``.

    A data set is computed anew for each part, so its source must give its records in the same order each time.

    >>> from funken.dataset import ExecutionEnvironment
    >>> numbers = ExecutionEnvironment.create_local_environment(parallelism=2).generate_sequence(1, 100)
    >>> train, test = train_test_split(numbers, test_size=0.2, random_state=1)
    >>> sorted(train.collect() + test.collect()) == list(range(1, 101))
    True
    """
    if not any(map(is_distributed, data)):
        found: list[Any] = model_selection.train_test_split(
            *data, test_size=test_size, random_state=random_state, **given
        )
        return found
    if len(data) != 1 or given or not 0 < test_size < 1:
        raise InvalidProgram(
            "train_test_split() of distributed data takes one data set, a test_size between 0 and 1, and random_state."
        )
    seed = random_state if random_state is not None else int(np.random.default_rng().integers(2**31))
    (whole,) = data
    if isinstance(whole, DataStream | BlockSet):
        raise InvalidProgram("train_test_split() cannot split a stream. Use filter() on its records.")
    if not isinstance(whole, DataSet):
        return list(whole.randomSplit([1 - test_size, test_size], seed))
    return [whole.map_partition(Draw(test_size, seed, test)) for test in (False, True)]

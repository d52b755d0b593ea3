"""Bagging over the tasks: an estimator of scikit-learn (or with its interface) per task, fitted to the rows of that task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone

from funken.dataset import MapPartitionFunction
from funken.errors import InvalidProgram
from funken.ml.base import DistributedClassifier, DistributedRegressor, Probabilities
from funken.ml.data.blocks import FeatureBlock
from funken.ml.data.sources import BlockSet, concatenated


class FitPartition(MapPartitionFunction):
    """Fits a copy of an estimator to the rows of a task."""

    def __init__(self, estimator: Any, seed: int | None) -> None:
        self._estimator, self._seed = estimator, seed

    def open(self, runtime_context: Any) -> None:
        """Find the task."""
        self._task = runtime_context.get_index_of_this_subtask()

    def map_partition(self, values: Iterable[FeatureBlock]) -> Iterator[Any]:
        """Yield the task, the number of rows and the fitted estimator; nothing if there are no rows."""
        blocks = list(values)
        if blocks:
            rows = concatenated(blocks)
            model = clone(self._estimator)
            if self._seed is not None and "random_state" in model.get_params():
                model.set_params(random_state=self._seed + self._task)
            weights = {} if rows.w is None else {"sample_weight": rows.w}
            yield self._task, len(rows), model.fit(rows.X, rows.y, **weights)


class PartitionEnsemble(BaseEstimator):
    """What the two ensembles share."""

    def __init__(self, estimator: Any = None, random_state: int | None = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def _fit_blocks(self, blocks: BlockSet) -> None:
        """Fit an estimator per task; those of more rows have more weight."""
        if self.estimator is None:
            raise InvalidProgram(
                f"{type(self).__name__} needs an estimator: one of scikit-learn, or with its interface."
            )
        spread = blocks.data_set.map_partition(FitPartition(self.estimator, self.random_state))
        fitted = sorted(spread.collect(), key=lambda part: part[0])
        if not fitted:
            raise InvalidProgram("fit(): the data has no record. Give one or more.")
        self.estimators_ = [model for _, _, model in fitted]
        self.weights_ = np.array([rows for _, rows, _ in fitted], dtype=np.float64)
        self.weights_ /= self.weights_.sum()
        self.n_features_in_ = self.estimators_[0].n_features_in_

    @property
    def feature_importances_(self) -> Any:
        """Return the mean of the importances that the estimators have."""
        return self.weights_ @ np.array([model.feature_importances_ for model in self.estimators_])


class _FitsArrays(PartitionEnsemble):
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit to arrays: one estimator."""
        self._fit_blocks(BlockSet.of_arrays(np.asarray(X), np.asarray(y), sample_weight))
        return self

    def predict(self, X: Any) -> Any:
        """Predict the weighted mean."""
        return self.weights_ @ np.array([model.predict(X) for model in self.estimators_])


class PartitionRegressor(DistributedRegressor, RegressorMixin, _FitsArrays):  # type: ignore[misc]
    """The mean of regressors, one per task.

    >>> from sklearn.tree import DecisionTreeRegressor
    >>> PartitionRegressor(DecisionTreeRegressor()).fit([[0.0], [1.0]], [2.0, 4.0]).predict([[0.9]])
    array([4.])
    """


class _Votes(_FitsArrays):
    def _fit_blocks(self, blocks: BlockSet) -> None:
        super()._fit_blocks(blocks)
        self.classes_ = np.unique(np.concatenate([model.classes_ for model in self.estimators_]))

    def predict_proba(self, X: Any) -> Any:
        """Return the weighted mean of the probabilities; a class that a task has not seen has 0 there."""
        found = np.zeros((len(X), len(self.classes_)))
        for model, weight in zip(self.estimators_, self.weights_, strict=True):
            found[:, np.searchsorted(self.classes_, model.classes_)] += weight * model.predict_proba(X)
        return found

    def predict(self, X: Any) -> Any:
        """Predict the most probable class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class PartitionClassifier(Probabilities, DistributedClassifier, ClassifierMixin, _Votes):  # type: ignore[misc]
    """A vote of classifiers, one per task: trees, forests, boosting.

    Each sees the rows of its task only: ``rebalance()`` data that comes in the order of its labels.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> PartitionClassifier(DecisionTreeClassifier()).fit([[0.0], [1.0]], ["a", "b"]).predict([[0.9]]).tolist()
    ['b']
    """

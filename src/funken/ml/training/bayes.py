"""Naive Bayes: one pass over the tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import naive_bayes

from funken.errors import InvalidProgram
from funken.ml.base import DistributedClassifier, Probabilities
from funken.ml.data.sources import BlockSet
from funken.ml.preprocessing.statistics import Extremes, Moments


def _by_class(block: Any) -> tuple[dict[Any, Moments], Any]:
    found = {}
    for label in np.unique(block.y).tolist():
        rows = block.y == label
        found[label] = Moments.of(block.X[rows], None if block.w is None else block.w[rows])
    return found, Moments.of(block.X)


def _merged(one: Any, other: Any) -> Any:
    shared = {label: one[0][label] + other[0][label] for label in one[0].keys() & other[0].keys()}
    return {**one[0], **other[0], **shared}, one[1] + other[1]


class GaussianNB(Probabilities, DistributedClassifier, naive_bayes.GaussianNB):
    """Naive Bayes with a normal distribution for each class and feature.

    >>> GaussianNB().fit([[0.0], [1.0], [9.0], [10.0]], [0, 0, 1, 1]).predict([[2.0], [8.0]]).tolist()
    [0, 1]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        classes, whole = blocks.aggregate(_by_class, _merged)
        names = sorted(classes)
        self.classes_ = np.array(names)
        self.n_features_in_ = len(whole.mean)
        self.epsilon_ = self.var_smoothing * whole.variance.max()
        self.class_count_ = np.array([classes[name].weight[0] for name in names])
        self.theta_ = np.array([classes[name].mean for name in names])
        self.var_ = np.array([classes[name].variance for name in names]) + self.epsilon_
        self.class_prior_ = self.class_count_ / self.class_count_.sum()
        if self.priors is not None:
            self.class_prior_ = np.asarray(self.priors)
            if len(self.class_prior_) != len(names) or not np.isclose(self.class_prior_.sum(), 1.0):
                raise InvalidProgram(f"GaussianNB: priors {self.priors} are not one per class with the sum 1.")


def _counts(block: Any) -> tuple[dict[Any, Any], Any]:
    found = {}
    for label in np.unique(block.y).tolist():
        rows = block.y == label
        weights = block.weights[rows]
        found[label] = np.append(np.asarray(block.X[rows].T @ weights).ravel(), weights.sum())
    return found, Extremes.of(block.X).low.min()


def _added(one: Any, other: Any) -> Any:
    shared = {label: one[0][label] + other[0][label] for label in one[0].keys() & other[0].keys()}
    return {**one[0], **other[0], **shared}, min(one[1], other[1])


class MultinomialNB(Probabilities, DistributedClassifier, naive_bayes.MultinomialNB):
    """Naive Bayes of counts, as those of words.

    >>> MultinomialNB().fit([[3, 0], [0, 3]], ["tea", "ale"]).predict([[2, 1]]).tolist()
    ['tea']
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        classes, least = blocks.aggregate(_counts, _added)
        if least < 0:
            raise InvalidProgram("MultinomialNB: a feature is negative. Give counts, or use GaussianNB.")
        names = sorted(classes)
        self.classes_ = np.array(names)
        counts = np.array([classes[name] for name in names])
        self.n_features_in_ = counts.shape[1] - 1
        self.feature_count_, self.class_count_ = counts[:, :-1], counts[:, -1]
        self._update_feature_log_prob(self._check_alpha())
        self._update_class_log_prior(class_prior=self.class_prior)

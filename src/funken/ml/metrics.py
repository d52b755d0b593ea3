"""Metrics: scikit-learn's of arrays; of a ``DataSet`` of pairs (true, predicted) the same numbers, by one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn import metrics

from funken.dataset import DataSet
from funken.errors import InvalidProgram
from funken.ml.data import OfTask


def _sums_of_pairs(task: int, values: Iterable[Any]) -> Iterator[Any]:
    """Yield the task, and rows, mean and squares of the truth, and sums of errors."""
    pairs = np.array(list(values), dtype=np.float64).reshape(-1, 2)
    if len(pairs):
        true, off = pairs[:, 0], pairs[:, 0] - pairs[:, 1]
        spread = float(((true - true.mean()) ** 2).sum())
        yield task, len(pairs), float(true.mean()), spread, float((off**2).sum()), float(np.abs(off).sum())


def _counted(pairs: DataSet) -> Counter[Any]:
    whole: Counter[Any] = Counter()
    for part in pairs.map_partition(lambda values: [Counter(map(_pair, values))]).collect():
        whole.update(part)
    if not whole:
        raise InvalidProgram("a metric of a data set needs pairs (true, predicted), but there is no record.")
    return whole


def _pair(record: Any) -> tuple[Any, Any]:
    if isinstance(record, tuple | list) and len(record) == 2:
        return record[0], record[1]
    raise InvalidProgram(
        f"a metric of a data set needs pairs (true, predicted), but got {record!r:.200}. Map the result of predict(): "
        "model.predict(data).map(lambda pair: (pair[0].label, pair[1]))."
    )


def _weighted(metric: Any, y_true: Any, y_pred: Any, given: dict[str, Any]) -> Any:
    """Call a metric with each distinct pair once, weighted by its count."""
    if not isinstance(y_true, DataSet):
        return metric(y_true, y_pred, **given)
    if y_pred is not None:
        raise InvalidProgram(
            "a metric of a data set needs one data set, of pairs (true, predicted), but got two arguments."
        )
    counts = _counted(y_true)
    true, predicted = (list(side) for side in zip(*counts, strict=True))
    return metric(true, predicted, sample_weight=list(counts.values()), **given)


def accuracy_score(y_true: Any, y_pred: Any = None, **given: Any) -> float:
    """Return the share of right predictions.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> accuracy_score(env.from_elements(("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")))
    0.75
    """
    return float(_weighted(metrics.accuracy_score, y_true, y_pred, given))


def confusion_matrix(y_true: Any, y_pred: Any = None, **given: Any) -> Any:
    """Return the number of predictions of each class (rows) as each (columns).

    >>> confusion_matrix(["a", "b", "b"], ["a", "a", "b"]).tolist()
    [[1, 0], [1, 1]]
    """
    return _weighted(metrics.confusion_matrix, y_true, y_pred, given)


def f1_score(y_true: Any, y_pred: Any = None, **given: Any) -> float:
    """Return the harmonic mean of precision and recall.

    >>> round(f1_score([1, 0, 1], [1, 1, 1]), 6)
    0.8
    """
    return float(_weighted(metrics.f1_score, y_true, y_pred, given))


def precision_score(y_true: Any, y_pred: Any = None, **given: Any) -> float:
    """Return the share of right ones among the positive predictions.

    >>> round(precision_score([1, 0, 1], [1, 1, 1]), 6)
    0.666667
    """
    return float(_weighted(metrics.precision_score, y_true, y_pred, given))


def recall_score(y_true: Any, y_pred: Any = None, **given: Any) -> float:
    """Return the share of the positives that were found.

    >>> recall_score([1, 0, 1], [1, 1, 0])
    0.5
    """
    return float(_weighted(metrics.recall_score, y_true, y_pred, given))


def roc_auc_score(y_true: Any, y_score: Any = None, **given: Any) -> float:
    """Return the area under the ROC curve of pairs (true, score).

    >>> roc_auc_score([0, 0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.15, 0.95, 0.75, 0.8, 0.9])
    0.75
    """
    return float(_weighted(metrics.roc_auc_score, y_true, y_score, given))


def average_precision_score(y_true: Any, y_score: Any = None, **given: Any) -> float:
    """Return the average precision of pairs (true, score): a sum of rectangles under the precision-recall curve.

    >>> round(average_precision_score([0, 1, 1], [0.1, 0.4, 0.35]), 6)
    1.0
    """
    return float(_weighted(metrics.average_precision_score, y_true, y_score, given))


def area_under_pr(y_true: Any, y_score: Any = None) -> float:
    """Return the area under the precision-recall curve by trapezoids, as Flink ML's ``areaUnderPR``; classes are 0 and 1.

    >>> round(area_under_pr([0, 0, 1, 0, 1, 0, 1], [0.1, 0.2, 0.15, 0.25, 0.75, 0.8, 0.9]), 6)
    0.677778
    """
    positives, negatives = _ranked(y_true, y_score)
    hits, misses = np.cumsum(positives), np.cumsum(negatives)
    recall, precision = hits / hits[-1], hits / (hits + misses)
    return float(metrics.auc(np.concatenate([[0.0], recall]), np.concatenate([precision[:1], precision])))


def ks_score(y_true: Any, y_score: Any = None) -> float:
    """Return the statistic of Kolmogorov and Smirnov: the most that the shares of found positives and negatives differ by.

    >>> ks_score([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4])
    1.0
    """
    positives, negatives = _ranked(y_true, y_score)
    return float(np.abs(np.cumsum(positives) / positives.sum() - np.cumsum(negatives) / negatives.sum()).max())


def area_under_lorenz(y_true: Any, y_score: Any = None) -> float:
    """Return the area under the Lorenz curve: the share of positives over the share of records, highest scores first.

    >>> area_under_lorenz([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4])
    0.75
    """
    positives, negatives = _ranked(y_true, y_score)
    records, hits = np.cumsum(positives + negatives), np.cumsum(positives)
    shares, found = (np.concatenate([[0.0], each / each[-1]]) for each in (records, hits))
    return float(metrics.auc(shares, found))


def _ranked(y_true: Any, y_score: Any) -> tuple[Any, Any]:
    """Return the positives and negatives of each distinct score, highest first."""
    if isinstance(y_true, DataSet):
        counts = _counted(y_true)
    else:
        counts = Counter(zip(np.asarray(y_true).tolist(), np.asarray(y_score).tolist(), strict=True))
    if any(true not in (0, 1) for true, _ in counts):
        wrong = next(true for true, _ in counts if true not in (0, 1))
        raise InvalidProgram(f"the label of a record is {wrong!r}, but a metric of two classes needs 0 and 1.")
    scores = sorted({score for _, score in counts}, reverse=True)
    positives, negatives = (np.array([float(counts[label, score]) for score in scores]) for label in (1, 0))
    if not positives.sum() or not negatives.sum():
        raise InvalidProgram("a metric of two classes needs records of both: one with the label 1, and one with 0.")
    return positives, negatives


BINARY_METRICS: dict[str, Callable[[Any, Any], float]] = {
    "areaUnderROC": roc_auc_score,
    "areaUnderPR": area_under_pr,
    "ks": ks_score,
    "areaUnderLorenz": area_under_lorenz,
}
"""Metrics of two classes by Flink ML's names."""


class BinaryClassificationEvaluator:
    """Computes metrics of pairs (true, score) by Flink ML's names.

    They are ``areaUnderROC``, ``areaUnderPR``, ``ks`` and ``areaUnderLorenz``.

    >>> BinaryClassificationEvaluator(["areaUnderROC", "ks"]).evaluate([0, 0, 1, 1], [0.1, 0.2, 0.3, 0.4])
    {'areaUnderROC': 1.0, 'ks': 1.0}
    """

    def __init__(self, metrics_names: Iterable[str] = ("areaUnderROC", "areaUnderPR")) -> None:
        self.metrics_names = tuple(metrics_names)
        unknown = [name for name in self.metrics_names if name not in BINARY_METRICS]
        if unknown:
            raise InvalidProgram(
                f"BinaryClassificationEvaluator: there is no metric {unknown[0]!r}. Choose from {', '.join(BINARY_METRICS)}."
            )

    def evaluate(self, y_true: Any, y_score: Any = None) -> dict[str, float]:
        """Return the metrics of arrays, or of a data set of pairs."""
        return {name: BINARY_METRICS[name](y_true, y_score) for name in self.metrics_names}


def _sums(pairs: DataSet) -> tuple[int, float, float, float]:
    """Return rows, squared deviations of the truth, squared and absolute errors; merged in the order of the tasks."""
    n, mean, spread, squared, absolute = 0, 0.0, 0.0, 0.0, 0.0
    for _, rows, own, deviations, errors, sizes in sorted(pairs.map_partition(OfTask(_sums_of_pairs)).collect()):
        spread += deviations + (own - mean) ** 2 * n * rows / (n + rows)
        mean += (own - mean) * rows / (n + rows)
        n, squared, absolute = n + rows, squared + errors, absolute + sizes
    if not n:
        raise InvalidProgram("a metric of a data set needs pairs (true, predicted), but there is no record.")
    return n, spread, squared, absolute


def mean_squared_error(y_true: Any, y_pred: Any = None, **given: Any) -> float:
    """Return the mean of the squared errors.

    >>> mean_squared_error([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    if not isinstance(y_true, DataSet):
        return float(metrics.mean_squared_error(y_true, y_pred, **given))
    n, _, squared, _ = _sums(y_true)
    return squared / n


def mean_absolute_error(y_true: Any, y_pred: Any = None, **given: Any) -> float:
    """Return the mean of the absolute errors.

    >>> mean_absolute_error([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    if not isinstance(y_true, DataSet):
        return float(metrics.mean_absolute_error(y_true, y_pred, **given))
    n, _, _, absolute = _sums(y_true)
    return absolute / n


def r2_score(y_true: Any, y_pred: Any = None, **given: Any) -> float:
    """Return R squared.

    >>> r2_score([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])
    0.5
    """
    if not isinstance(y_true, DataSet):
        return float(metrics.r2_score(y_true, y_pred, **given))
    _, spread, squared, _ = _sums(y_true)
    return 1 - squared / spread

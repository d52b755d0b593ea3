"""Agglomerative clustering: scikit-learn's. It needs all distances, so the rows are gathered in this process."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import cluster

from funken.dataset import DataSet
from funken.errors import InvalidProgram
from funken.ml.base import DistributedEstimator
from funken.ml.data.blocks import FieldLayout, block_of
from funken.ml.data.demands import demands_of
from funken.ml.data.sources import BlockSet, is_distributed

MOST_ROWS = 30_000
"""More rows are refused: their distances would need more than 7 GB."""


class AgglomerativeClustering(DistributedEstimator, cluster.AgglomerativeClustering):
    """Merges the two nearest clusters until there are ``n_clusters``; ``labels_`` has the cluster of each row.

    Distributed data is gathered; ``fit_predict`` of a data set pairs its records with their clusters.

    >>> AgglomerativeClustering(2).fit_predict([[0.0], [0.1], [9.0]]).tolist()
    [0, 0, 1]
    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> pairs = AgglomerativeClustering(2).fit_predict(env.from_elements((0.0, 1.0), (0.1, 1.0), (9.0, 9.0)))
    >>> [label for _, label in sorted(pairs.collect())]
    [0, 0, 1]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        self._fit_rows(blocks.gather().X)

    def _fit_rows(self, rows: Any) -> None:
        if rows.shape[0] > MOST_ROWS:
            raise InvalidProgram(
                f"AgglomerativeClustering: {rows.shape[0]} rows, but at most {MOST_ROWS} can be compared with each other. "
                "Cluster a sample, or begin with KMeans."
            )
        cluster.AgglomerativeClustering.fit(self, rows.toarray() if hasattr(rows, "toarray") else rows)

    def fit_predict(self, X: Any, y: Any = None, *, features: Any = None) -> Any:
        """Return the cluster of each row; of a data set, the pairs of records and clusters."""
        if not is_distributed(X):
            return super().fit_predict(X, y)
        if not isinstance(X, DataSet):
            raise InvalidProgram(
                "AgglomerativeClustering.fit_predict() takes arrays and data sets. Use fit() and labels_."
            )
        records = X.collect()
        demands = demands_of(self, "fit_predict")
        layout = FieldLayout(None if features is None else tuple(features)).resolve(records[0], demands.caller)
        self._fit_rows(block_of(records, layout, demands).X)
        labels = np.asarray(self.labels_).tolist()
        return X.get_execution_environment().from_collection(list(zip(records, labels, strict=True)))

"""Least squares over the tasks: the rows of each are reduced to a triangle (QR), and triangles of two tasks to one.

The triangle of the centred rows has the same least squares problem as the rows, so scikit-learn solves that: also with a
penalty. It is as exact as the QR of all rows, which sums of products are not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model

from funken.errors import InvalidProgram
from funken.ml.base import DistributedRegressor
from funken.ml.data.blocks import FeatureBlock
from funken.ml.data.sources import BlockSet


class Triangles:
    """Makes the triangle of a block: of a column of ones, the features and the label, times the root of the weights."""

    def __call__(self, block: FeatureBlock) -> Any:
        """Return the number of rows and the triangle."""
        X = block.X.toarray() if sparse.issparse(block.X) else block.X
        y = block.y.astype(np.float64)
        rows = np.column_stack([np.ones(len(y)), X, y])
        if block.w is not None:
            rows *= np.sqrt(block.w)[:, None]
        return len(y), triangle(rows)

    @staticmethod
    def joined(one: Any, other: Any) -> Any:
        """Return the triangle of the rows of both."""
        return one[0] + other[0], triangle(np.vstack([one[1], other[1]]))


def triangle(rows: Any) -> Any:
    """Return the R of a QR decomposition.

    >>> rows = np.array([[1.0, 2.0], [1.0, 4.0], [1.0, 9.0]])
    >>> R = triangle(rows)
    >>> np.allclose(R.T @ R, rows.T @ rows)
    True
    """
    return np.linalg.qr(rows, mode="r")


class LeastSquares(DistributedRegressor):
    """A linear regression whose problem is that of a triangle."""

    _kernel: Any
    fit_intercept: bool
    alpha: float
    get_params: Any

    def _fit_blocks(self, blocks: BlockSet) -> None:
        _, R = blocks.aggregate(Triangles(), Triangles.joined)
        if not np.isfinite(R).all():
            raise InvalidProgram(
                f"{type(self).__name__}.fit(): a feature or label is NaN or infinite. Impute missing numbers before."
            )
        weight = float(R[:, 0] @ R[:, 0])
        if not weight > 0:
            raise InvalidProgram(
                f"{type(self).__name__}.fit(): all sample weights are 0. Give one record or more a weight."
            )
        mean = (R[0, 1:] / R[0, 0]) if self.fit_intercept else np.zeros(R.shape[1] - 1)
        reduced = R[1:, 1:] if self.fit_intercept else R[:, 1:]
        kernel = self._kernel(**{**self.get_params(), "fit_intercept": False, **self._scaled(len(reduced), weight)})
        kernel.fit(reduced[:, :-1], reduced[:, -1])
        self.coef_ = kernel.coef_
        self.n_features_in_ = reduced.shape[1] - 1
        self.intercept_ = float(mean[-1] - mean[:-1] @ kernel.coef_) if self.fit_intercept else 0.0
        self.n_iter_ = getattr(kernel, "n_iter_", None)

    def _scaled(self, rows: int, weight: float) -> dict[str, Any]:
        """Return the parameters of the reduced problem that depend on the number of rows."""
        return {}


class LinearRegression(LeastSquares, linear_model.LinearRegression):
    """Least squares.

    >>> LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]).coef_
    array([2.])
    """

    _kernel = linear_model.LinearRegression


class Ridge(LeastSquares, linear_model.Ridge):
    """Least squares with an L2 penalty.

    >>> Ridge(alpha=0.5).fit([[-0.5], [0.5]], [-1.0, 1.0]).coef_
    array([1.])
    """

    _kernel = linear_model.Ridge


class _Sparse(LeastSquares):
    def _scaled(self, rows: int, weight: float) -> dict[str, Any]:
        """The loss of scikit-learn is divided by the number of rows, the penalty is not."""
        return {"alpha": self.alpha * weight / rows, "warm_start": False}


class Lasso(_Sparse, linear_model.Lasso):
    """Least squares with an L1 penalty.

    >>> Lasso(alpha=0.1).fit([[-1.0], [1.0]], [-1.0, 1.0]).coef_
    array([0.9])
    """

    _kernel = linear_model.Lasso


class ElasticNet(_Sparse, linear_model.ElasticNet):
    """Least squares with a penalty between L1 and L2.

    >>> ElasticNet(alpha=0.1, l1_ratio=1.0).fit([[-1.0], [1.0]], [-1.0, 1.0]).coef_
    array([0.9])
    """

    _kernel = linear_model.ElasticNet

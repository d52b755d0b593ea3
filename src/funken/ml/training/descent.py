"""Linear regression by full gradient descent over the tasks (FlinkML's ``MultipleLinearRegression``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from funken.errors import InvalidProgram
from funken.ml.base import DistributedRegressor
from funken.ml.data.blocks import FeatureBlock
from funken.ml.data.sources import BlockSet, is_distributed
from funken.ml.training.allreduce import Place, Sums, solve

RATES = {
    "default": lambda step, number: step / np.sqrt(number),
    "constant": lambda step, number: step,
    "inv_scaling": lambda step, number: step / number,
}
"""Learning rates by the number of the iteration, from 1."""


@dataclass(frozen=True)
class DescentState:
    """Weights, the intercept last; ``residual``: the squared residual sum of the weights before."""

    weights: Any
    iteration: int = 1
    residual: float | None = None
    done: bool = False


@dataclass(frozen=True)
class GradientDescent:
    """Moves weights against the gradient of the mean squared error, one pass for each step."""

    step: float
    steps: int
    rate: str
    threshold: float | None
    intercept: bool
    initial: Any = None

    def start(self) -> DescentState:
        """Return the weights to begin with; None: zeros of the width of the data."""
        return DescentState(self.initial)

    def local(self, state: DescentState, block: FeatureBlock, place: Place) -> Sums:
        """Return weighted rows, the gradient and the squared residuals of a block."""
        X = block.X.toarray() if sparse.issparse(block.X) else np.asarray(block.X, dtype=np.float64)
        rows = np.column_stack([X, np.ones(len(X))])
        weights = np.zeros(rows.shape[1]) if state.weights is None else state.weights
        if len(weights) != rows.shape[1]:
            raise InvalidProgram(
                f"MultipleLinearRegression: initial_weights has {len(weights)} numbers, but {X.shape[1]} features and the "
                f"intercept need {rows.shape[1]}."
            )
        w = np.ones(len(rows)) if block.w is None else block.w
        with np.errstate(over="ignore", invalid="ignore"):  # update() says so
            off = rows @ weights - block.y.astype(np.float64)
            gradient, residual = 2 * (rows.T @ (w * off)), float((w * off**2).sum())
        return {"rows": float(w.sum()), "gradient": gradient, "residual": residual}

    def update(self, state: DescentState, sums: Sums) -> DescentState:
        """Return the weights after a step; done if the residual falls by less than the threshold."""
        gradient = sums["gradient"] / sums["rows"]
        if not self.intercept:
            gradient[-1] = 0.0
        weights = np.zeros_like(gradient) if state.weights is None else state.weights
        with np.errstate(over="ignore", invalid="ignore"):
            weights = weights - RATES[self.rate](self.step, state.iteration) * gradient
        if not np.isfinite(weights).all():
            raise InvalidProgram(
                f"MultipleLinearRegression: the weights grow without bound at iteration {state.iteration}. Lower the stepsize "
                f"{self.step}, or scale the features (StandardScaler)."
            )
        residual, before = sums["residual"], state.residual
        slow = self.threshold is not None and before is not None and before - residual < self.threshold * before
        done = slow or state.iteration >= self.steps
        return replace(state, weights=weights, iteration=state.iteration + 1, residual=residual, done=done)


class MultipleLinearRegression(DistributedRegressor, RegressorMixin, BaseEstimator):
    """Least squares by full gradient descent, as FlinkML has it; ``LinearRegression`` solves the same problem exactly.

    Step j moves the weights by ``-rate(stepsize, j)`` times the mean of ``2 (w x - y) x``. ``learning_rate`` is ``default``
    (``stepsize / sqrt(j)``), ``constant`` or ``inv_scaling`` (``stepsize / j``). It stops after ``iterations`` steps, or when the
    squared residual sum falls by a smaller share than ``convergence_threshold``. ``initial_weights`` has the intercept last.

    >>> model = MultipleLinearRegression(iterations=2000, stepsize=0.1, learning_rate="constant")
    >>> fitted = model.fit([[1.0], [2.0], [3.0]], [3.0, 5.0, 7.0])
    >>> fitted.coef_.round(2).tolist(), round(fitted.intercept_, 2)
    ([2.0], 1.0)
    """

    def __init__(
        self,
        *,
        iterations: int = 10,
        stepsize: float = 0.1,
        convergence_threshold: float | None = None,
        learning_rate: str = "default",
        fit_intercept: bool = True,
        initial_weights: Any = None,
    ) -> None:
        self.iterations = iterations
        self.stepsize = stepsize
        self.convergence_threshold = convergence_threshold
        self.learning_rate = learning_rate
        self.fit_intercept = fit_intercept
        self.initial_weights = initial_weights

    def fit(self, X: Any, y: Any = None, *, features: Any = None, **given: Any) -> Any:
        """Fit to arrays, or to distributed data."""
        self._check()
        if is_distributed(X) or features is not None:
            return super().fit(X, y, features=features, **given)
        weight = given.pop("sample_weight", None)
        rows, labels = check_X_y(X, y, y_numeric=True)
        self._fit_blocks(
            BlockSet.of_arrays(rows, labels, None if weight is None else np.asarray(weight, dtype=np.float64))
        )
        self.fields_ = None
        return self

    def _check(self) -> None:
        if self.learning_rate not in RATES:
            raise InvalidProgram(
                f"MultipleLinearRegression: learning_rate is {self.learning_rate!r}, but has to be one of {', '.join(RATES)}."
            )
        if self.iterations < 1 or not self.stepsize > 0:
            raise InvalidProgram(
                "MultipleLinearRegression: iterations has to be 1 or more, and stepsize greater than 0."
            )

    def _fit_blocks(self, blocks: BlockSet) -> None:
        initial = None if self.initial_weights is None else np.asarray(self.initial_weights, dtype=np.float64)
        solver = GradientDescent(
            self.stepsize, self.iterations, self.learning_rate, self.convergence_threshold, self.fit_intercept, initial
        )
        state = solve(blocks, solver)
        self.coef_ = state.weights[:-1]
        self.intercept_ = float(state.weights[-1])
        self.n_features_in_ = len(self.coef_)
        self.n_iter_ = state.iteration - 1

    def predict(self, X: Any, **given: Any) -> Any:
        """Predict for arrays; or pair the records of distributed data with their predictions."""
        if is_distributed(X):
            return super().predict(X, **given)
        check_is_fitted(self)
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64) @ self.coef_ + self.intercept_

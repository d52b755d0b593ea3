"""Linear models over the tasks: regression, classifiers, gradient descent, naive Bayes.

Least squares over the tasks: the rows of each are reduced to a triangle (QR), and triangles of two tasks to one.

The triangle of the centred rows has the same least squares problem as the rows, so scikit-learn solves that: also with a
penalty. It is as exact as the QR of all rows, which sums of products are not.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from scipy import linalg, sparse
from sklearn import linear_model, naive_bayes, svm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from funken.dataset import Aggregator, MapPartitionFunction
from funken.errors import InvalidProgram
from funken.ml.base import DistributedClassifier, DistributedRegressor, Probabilities
from funken.ml.data import BlockSet, FeatureBlock, is_distributed, spreads
from funken.ml.preprocessing.transformers import Extremes, Moments


def _triangle_of(block: FeatureBlock) -> Any:
    """Return the number of rows, and the triangle of a column of ones, features and label, times the root of the weights."""
    X = block.X.toarray() if sparse.issparse(block.X) else block.X
    y = block.y.astype(np.float64)
    rows = np.column_stack([np.ones(len(y)), X, y])
    if block.w is not None:
        rows *= np.sqrt(block.w)[:, None]
    return len(y), triangle(rows)


def _joined(one: Any, other: Any) -> Any:
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
        _, R = blocks.aggregate(_triangle_of, _joined)
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


# ---- Minimising a smooth convex loss: Newton's method with a line search, or L-BFGS where the Hessian would be too
# large.
#
# A pass evaluates the loss, its gradient and perhaps its Hessian at the trial point of the state. The update
# accepts the point if the loss fell enough (Armijo), else it tries half the step.


_ARMIJO = 1e-4
_MEMORY = 10
_SMALLEST = 1e-12


@dataclass(frozen=True)
class Descent:
    """The progress of a minimisation. ``at`` is the best point, ``trial`` the next point to evaluate.

    >>> def bowl(x):
    ...     return float(((x - 3) ** 2).sum()), 2 * (x - 3), 2 * np.eye(len(x))
    >>> state = Descent.start(np.zeros(2))
    >>> while not state.done:
    ...     state = state.evaluated(*bowl(state.trial), tol=1e-9, max_iter=100)
    >>> state.at, state.n_iter
    (array([3., 3.]), 1)
    """

    trial: Any
    at: Any = None
    loss: float = np.inf
    gradient: Any = None
    step: float = 1.0
    slope: float = 0.0
    n_iter: int = 0
    done: bool = False
    converged: bool = False
    history: tuple[tuple[Any, Any], ...] = ()

    @staticmethod
    def start(point: Any) -> Descent:
        """Begin at a point."""
        return Descent(point)

    def evaluated(self, loss: float, gradient: Any, hessian: Any, tol: float, max_iter: int) -> Descent:
        """Return the next state by the values at the trial point; ``hessian`` None: L-BFGS."""
        noise = 1e-14 * max(1.0, abs(self.loss)) if np.isfinite(self.loss) else 0.0
        if self.at is not None and not loss <= self.loss + _ARMIJO * self.step * self.slope + noise:
            step = self.step / 2
            if step < _SMALLEST:
                return replace(self, trial=self.at, done=True, converged=True)
            return replace(self, trial=self.at + (self.trial - self.at) / 2, step=step)
        history = self.history
        if self.at is not None and hessian is None:
            moved, turned = self.trial - self.at, gradient - self.gradient
            if moved @ turned > 1e-12 * (turned @ turned):
                history = (*history, (moved, turned))[-_MEMORY:]
        n_iter = self.n_iter + (self.at is not None)
        small = float(np.abs(gradient).max()) <= tol
        if small or n_iter >= max_iter:
            return Descent(
                self.trial, self.trial, loss, gradient, n_iter=n_iter, done=True, converged=small, history=history
            )
        direction = -newton(hessian, gradient) if hessian is not None else -two_loops(history, gradient)
        slope = float(gradient @ direction)
        if not slope < 0:
            direction, slope = -gradient, -float(gradient @ gradient)
        step = 1.0 if hessian is not None or history else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        return Descent(self.trial + step * direction, self.trial, loss, gradient, step, slope, n_iter, history=history)


def newton(hessian: Any, gradient: Any) -> Any:
    """Solve for Newton's step; the shortest one if the Hessian is singular."""
    try:
        return linalg.cho_solve(linalg.cho_factor(hessian), gradient)
    except linalg.LinAlgError:
        return linalg.lstsq(hessian, gradient, cond=1e-12)[0]


def two_loops(history: tuple[tuple[Any, Any], ...], gradient: Any) -> Any:
    """Return the gradient times the approximate inverse Hessian of L-BFGS."""
    found = gradient.copy()
    factors = []
    for moved, turned in reversed(history):
        factor = (moved @ found) / (moved @ turned)
        found -= factor * turned
        factors.append(factor)
    if history:
        moved, turned = history[-1]
        found *= (moved @ turned) / (turned @ turned)
    for (moved, turned), factor in zip(history, reversed(factors), strict=True):
        found += (factor - (turned @ found) / (moved @ turned)) * moved
    return found


def with_intercept(X: Any, fit_intercept: bool) -> Any:
    """Return the rows with a column of ones."""
    if not fit_intercept:
        return X
    from scipy import sparse  # noqa: PLC0415 - slow to load

    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])


# ---- All-reduce on an iteration: every task adds up over its blocks, the sums of all tasks make the next state of
# the solver.
#
# The blocks are a constant input of the loop, so each task reads its own, kept in managed memory. The partial
# solution is one record, the state; it is all that a checkpoint of the loop holds. Every task computes the next
# state from the same sums, which the driver merged in the order of the tasks: no server of parameters, and the same
# bits in every run of one parallelism.


_SUMS, _STATE = "sums", "state"

Sums = dict[str, Any]
Place = tuple[int, int]
"""The task of a block, and its number there: the seed of random choices."""


class Solver(Protocol):
    """An algorithm in passes over the data. Its methods are pure: they change neither state nor block."""

    @property
    def steps(self) -> int:
        """Return the most passes that it takes."""

    def start(self) -> Any:
        """Return the state before the first pass: a small object that can be pickled, and that says when it is ``done``."""

    def local(self, state: Any, block: FeatureBlock, place: Place) -> Sums:
        """Return the sums of a block: numbers, arrays and lists; sets are united."""

    def update(self, state: Any, sums: Sums) -> Any:
        """Return the next state."""


def merged(one: Sums | None, other: Sums | None) -> Sums | None:
    """Add two results of ``local``; None is that of no block.

    >>> merged({"n": 1, "kinds": {"a"}}, {"n": 2, "kinds": {"b"}})["n"]
    3
    """
    if one is None or other is None:
        return other if one is None else one
    return {name: _added(one[name], other[name]) for name in one}


def _added(one: Any, other: Any) -> Any:
    return one | other if isinstance(one, set) else one + other


class SumAggregator(Aggregator):
    """Merges sums."""

    def __init__(self) -> None:
        self._sums: Sums | None = None

    def aggregate(self, value: Sums | None) -> None:
        """Add."""
        self._sums = merged(self._sums, value)

    def get_aggregate(self) -> Sums | None:
        """Return the sums; None if there was nothing."""
        return self._sums

    def reset(self) -> None:
        """Begin anew."""
        self._sums = None


class Pass(MapPartitionFunction):
    """A pass of a solver over the blocks of a task; the first task emits the state."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver

    def open(self, runtime_context: Any) -> None:
        """Find the state, and make the next one of the sums of the superstep before."""
        self._task = runtime_context.get_index_of_this_subtask()
        self._sums = runtime_context.get_iteration_aggregator(_SUMS)
        (self._state,) = runtime_context.get_broadcast_variable(_STATE)
        if runtime_context.get_superstep_number() > 1:
            reduced = runtime_context.get_previous_iteration_aggregate(_SUMS)
            if reduced is None:
                raise InvalidProgram("fit(): the data has no record. Give one or more.")
            self._state = self._solver.update(self._state, reduced)

    def map_partition(self, values: Iterable[FeatureBlock]) -> Iterator[Any]:
        """Add up."""
        if not self._state.done:
            for number, block in enumerate(values):
                self._sums.aggregate(self._solver.local(self._state, block, (self._task, number)))
        if self._task == 0:
            yield self._state


def solve(blocks: BlockSet, solver: Solver) -> Any:
    """Run a solver until it is done, and return its last state."""
    environment = blocks.data_set.get_execution_environment()
    loop = environment.from_elements(solver.start()).set_parallelism(1).iterate(solver.steps + 1)
    loop.register_aggregator(_SUMS, SumAggregator())
    states = blocks.data_set.map_partition(Pass(solver)).with_broadcast_set(loop, _STATE)
    (state,) = loop.close_with(states, states.filter(lambda each: not each.done)).collect()
    return state


# ---- Logistic regression and linear support vector machines: sums of losses over the tasks, minimised by
# ``smooth``.


MAX_HESSIAN = 1500
"""With more coefficients, L-BFGS takes the place of Newton's method."""

_CHUNK = 8192
"""Rows that a pass takes at once: its results stay in the caches of a core."""


@dataclass(frozen=True)
class Classes:
    """The progress of the training of a classifier: first the classes are collected, then the loss is minimised."""

    classes: Any = None
    width: int = 0
    descent: Descent | None = None
    done: bool = False

    def begun(self, sums: Sums, least: int = 2) -> Classes:
        """Return the state after the pass that found the classes."""
        classes = np.array(sorted(sums["labels"]))
        if len(classes) < least:
            raise InvalidProgram(
                f"fit(): the labels have one class, {classes.tolist()}. A classifier needs two or more."
            )
        return Classes(classes, max(sums["width"]))


def scan(block: FeatureBlock) -> Sums:
    """Return the classes and the number of features of a block."""
    labels = block.y if block.y.dtype == object else np.unique(block.y)
    return {"labels": set(labels.tolist()), "width": {block.X.shape[1]}}


@dataclass(frozen=True)
class LinearLosses:
    """The solver of losses that depend on ``X @ W + b``; a column of ``W`` for each class, or one for two classes."""

    l2: float
    fit_intercept: bool
    tol: float
    max_iter: int
    penal_intercept: bool = False

    @property
    def steps(self) -> int:
        """Return the most passes: an iteration of the minimisation may take some."""
        return 2 + 8 * self.max_iter

    def start(self) -> Classes:
        """Begin with the classes."""
        return Classes()

    def outputs(self, state: Classes) -> int:
        """Return the number of columns of ``W``."""
        return 1 if len(state.classes) == 2 else len(state.classes)

    def local(self, state: Classes, block: FeatureBlock, place: Place) -> Sums:
        """Return the classes of a block, or its loss with gradient and Hessian."""
        if state.descent is None:
            return scan(block)
        # Hot: 80 ns per row of 10 features by 8,192 rows, 121 by 65,536 (one core).
        found: Sums | None = None
        for at in range(0, max(len(block), 1), _CHUNK):
            some = slice(at, at + _CHUNK)
            found = merged(found, self._evaluated(state, block.X[some], block.y[some], block.weights[some]))
        assert found is not None
        return found

    def _evaluated(self, state: Classes, features: Any, labels: Any, w: Any) -> Sums:
        assert state.descent is not None
        X = with_intercept(features, self.fit_intercept)
        outputs = self.outputs(state)
        W = state.descent.trial.reshape(outputs, -1)
        codes = np.searchsorted(state.classes, labels.astype(state.classes.dtype))
        loss, slopes, curves = self.losses(X @ W.T, codes, outputs)
        found = {"loss": float(w @ loss), "gradient": ((slopes * w[:, None]).T @ X).ravel(), "weight": float(w.sum())}
        if state.descent.trial.size <= MAX_HESSIAN:
            found["hessian"] = self.hessian(X, curves, w)
        return found

    def losses(self, margins: Any, codes: Any, outputs: int) -> tuple[Any, Any, Any]:
        """Return per row the loss, its slope by output, and its curvature by pair of outputs (or by output)."""
        raise NotImplementedError

    def hessian(self, X: Any, curves: Any, w: Any) -> Any:
        """Return the Hessian of the sum; ``curves`` has two dimensions if the outputs do not depend on one another."""
        width, outputs = X.shape[1], curves.shape[1]
        whole = np.zeros((outputs, width, outputs, width))
        for one in range(outputs):
            for other in range(one, outputs) if curves.ndim == 3 else [one]:
                weights = (curves[:, one, other] if curves.ndim == 3 else curves[:, one]) * w
                part = X.T @ (sparse.diags_array(weights) @ X) if sparse.issparse(X) else X.T @ (X * weights[:, None])
                part = part.toarray() if sparse.issparse(part) else part
                whole[one, :, other] = part
                whole[other, :, one] = part
        if curves.ndim == 3:  # a number added to all outputs changes nothing: keep Newton's step off that direction
            whole += np.eye(width)[None, :, None, :] * w.sum()
        return whole.reshape(outputs * width, outputs * width)

    def update(self, state: Classes, sums: Sums) -> Classes:
        """Begin the minimisation, or go on with it."""
        if state.descent is None:
            found = state.begun(sums)
            size = self.outputs(found) * (found.width + self.fit_intercept)
            return replace(found, descent=Descent.start(np.zeros(size)))
        outputs = self.outputs(state)
        penal: Any = np.full((outputs, state.width + self.fit_intercept), self.l2)
        if self.fit_intercept and not self.penal_intercept:
            penal[:, -1] = 0.0
        penal = penal.ravel()
        w = state.descent.trial
        loss = sums["loss"] + 0.5 * float(penal @ (w * w))
        gradient = sums["gradient"] + penal * w
        hessian = sums["hessian"] + np.diag(penal) if "hessian" in sums else None
        weight = sums["weight"]
        if not weight > 0:
            raise InvalidProgram("fit(): all sample weights are 0. Give one record or more a weight.")
        scaled = None if hessian is None else hessian / weight
        descent = state.descent.evaluated(loss / weight, gradient / weight, scaled, self.tol, self.max_iter)
        return replace(state, descent=descent, done=descent.done)


class Logistic(LinearLosses):
    """The logistic loss; of more than two classes that of the softmax."""

    def losses(self, margins: Any, codes: Any, outputs: int) -> tuple[Any, Any, Any]:
        """Return loss, slopes and curves."""
        if outputs == 1:
            margin = margins[:, 0]
            chance = 0.5 * (1 + np.tanh(margin / 2))
            loss = (
                np.maximum(margin, 0.0) + np.log1p(np.exp(-np.abs(margin))) - codes * margin
            )  # logaddexp: 3 times as long
            return loss, (chance - codes)[:, None], (chance * (1 - chance))[:, None]
        shifted = margins - margins.max(axis=1, keepdims=True)
        total = np.log(np.exp(shifted).sum(axis=1))
        rows = np.arange(len(codes))
        loss = total - shifted[rows, codes]
        chances = np.exp(shifted - total[:, None])
        slopes = chances.copy()
        slopes[rows, codes] -= 1
        curves = -chances[:, :, None] * chances[:, None, :]
        diagonal = np.arange(outputs)
        curves[:, diagonal, diagonal] += chances
        return loss, slopes, curves


class SquaredHinge(LinearLosses):
    """The squared hinge loss, one class against the rest."""

    def losses(self, margins: Any, codes: Any, outputs: int) -> tuple[Any, Any, Any]:
        """Return loss, slopes and curves."""
        own = np.arange(outputs) if outputs > 1 else np.array([1])
        signs = np.where(codes[:, None] == own, 1.0, -1.0)
        short = np.maximum(0.0, 1.0 - signs * margins)
        return (short**2).sum(axis=1), -2.0 * signs * short, 2.0 * (short > 0)


class LinearClassifier(DistributedClassifier):
    """A classifier whose loss is that of a linear function."""

    def _solve(self, blocks: BlockSet, solver: LinearLosses) -> None:
        state = solve(blocks, solver)
        W = state.descent.at.reshape(solver.outputs(state), -1)
        if not state.descent.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge in {solver.max_iter} iterations. Raise max_iter or scale the data.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.classes_ = state.classes
        self.n_features_in_ = state.width
        self.coef_ = np.ascontiguousarray(W[:, : state.width])
        self.intercept_ = W[:, -1].copy() if solver.fit_intercept else np.zeros(len(W))
        self.n_iter_ = np.array([state.descent.n_iter], dtype=np.int32)


class LogisticRegression(Probabilities, LinearClassifier, linear_model.LogisticRegression):
    """Classifies by a linear function, with an L2 penalty of strength ``1 / C`` (``C=np.inf``: none).

    Of distributed data, Newton's method finds the coefficients; with more than 1,500 of them, L-BFGS.

    >>> LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).predict([[0.5], [2.5]]).tolist()
    [0, 1]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        ratio = getattr(self, "l1_ratio", None)
        if ratio not in (None, 0, 0.0) or self.class_weight is not None:
            raise InvalidProgram(
                "LogisticRegression: of distributed data the penalty is L2, unweighted. Leave out l1_ratio and class_weight."
            )
        if self.penalty not in (None, "l2", "deprecated"):
            raise InvalidProgram(
                f"LogisticRegression: of distributed data there is no penalty {self.penalty!r}; use 'l2' or None."
            )
        l2 = 0.0 if self.penalty is None else 1.0 / self.C
        self._solve(blocks, Logistic(l2, self.fit_intercept, min(self.tol, 1e-6), self.max_iter))


class LinearSVC(LinearClassifier, svm.LinearSVC):
    """Classifies by a linear function with the squared hinge loss, one class against the rest; the intercept is penalised.

    >>> LinearSVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).predict([[0.0], [3.0]]).tolist()
    [0, 1]
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        plain = self.penalty == "l2" and self.loss == "squared_hinge" and self.multi_class == "ovr"
        if not plain or self.class_weight is not None or self.intercept_scaling != 1:
            raise InvalidProgram(
                "LinearSVC: training on distributed data supports squared_hinge with an L2 penalty only, "
                "without class weights and scaling. "
                "Leave these parameters out."
            )
        solver = SquaredHinge(1.0 / self.C, self.fit_intercept, min(self.tol, 1e-6), self.max_iter, True)
        self._solve(blocks, solver)


# ---- Naive Bayes: one pass over the tasks.


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


def _added_counts(one: Any, other: Any) -> Any:
    shared = {label: one[0][label] + other[0][label] for label in one[0].keys() & other[0].keys()}
    return {**one[0], **other[0], **shared}, min(one[1], other[1])


class MultinomialNB(Probabilities, DistributedClassifier, naive_bayes.MultinomialNB):
    """Naive Bayes of counts, as those of words.

    >>> MultinomialNB().fit([[3, 0], [0, 3]], ["tea", "ale"]).predict([[2, 1]]).tolist()
    ['tea']
    """

    def _fit_blocks(self, blocks: BlockSet) -> None:
        classes, least = blocks.aggregate(_counts, _added_counts)
        if least < 0:
            raise InvalidProgram("MultinomialNB: a feature is negative. Give counts, or use GaussianNB.")
        names = sorted(classes)
        self.classes_ = np.array(names)
        counts = np.array([classes[name] for name in names])
        self.n_features_in_ = counts.shape[1] - 1
        self.feature_count_, self.class_count_ = counts[:, :-1], counts[:, -1]
        self._update_feature_log_prob(self._check_alpha())
        self._update_class_log_prior(class_prior=self.class_prior)


# ---- Linear regression by full gradient descent over the tasks (FlinkML's ``MultipleLinearRegression``).


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

    def fit(self, X: object, y: Any = None, *, features: Any = None, **given: Any) -> Self:
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

    @spreads
    def predict(self, X: Any, **given: Any) -> Any:
        """Predict for arrays; or pair the records of distributed data with their predictions."""
        if is_distributed(X):
            return super().predict(X, **given)
        check_is_fitted(self)
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64) @ self.coef_ + self.intercept_

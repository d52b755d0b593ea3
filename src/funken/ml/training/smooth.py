"""Minimising a smooth convex loss: Newton's method with a line search, or L-BFGS where the Hessian would be too large.

A pass evaluates the loss, its gradient and perhaps its Hessian at the trial point of the state. The update accepts the point if
the loss fell enough (Armijo), else it tries half the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

_ARMIJO = 1e-4
_MEMORY = 10
_SMALLEST = 1e-12


@dataclass(frozen=True)
class Descent:
    """Where a minimisation stands. ``at`` is the best point, ``trial`` the one to be evaluated.

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
        """Return the next state, given what is known at the trial point; ``hessian`` None: L-BFGS."""
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


Evaluate = Callable[[Any, Any, Any, Any], tuple[float, Any, Any]]


def with_intercept(X: Any, fit_intercept: bool) -> Any:
    """Return the rows with a column of ones."""
    if not fit_intercept:
        return X
    from scipy import sparse  # noqa: PLC0415 - slow to load

    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])

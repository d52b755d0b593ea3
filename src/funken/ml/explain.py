"""What a model has learned, by feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from funken.errors import InvalidProgram


class FeatureWeight(NamedTuple):
    """What a feature contributes; ``output`` is the class it speaks for, None if there is one output.

    >>> FeatureWeight("age", 0.5).output is None
    True
    """

    feature: Any
    weight: float
    output: Any = None


def explain(model: Any, names: Sequence[Any] | None = None) -> list[FeatureWeight]:
    """Return the coefficients or importances of a fitted model, the greatest by absolute value first.

    ``names`` are those of the features; without them, the fields that the model was fitted to. A coefficient is per unit of its
    feature as the model sees it: after a scaler, per standard deviation.

    >>> from funken.ml import LinearRegression
    >>> model = LinearRegression().fit([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], [0.0, 1.0, 2.0])
    >>> [(name, round(weight, 6) + 0.0) for name, weight, _ in explain(model, ["size", "age"])]
    [('size', 1.0), ('age', 0.0)]
    """
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    names = names if names is not None else _names(model)
    if hasattr(last, "coef_"):
        weights = np.atleast_2d(last.coef_)
    elif hasattr(last, "feature_importances_"):
        weights = np.atleast_2d(last.feature_importances_)
    else:
        raise InvalidProgram(
            f"explain(): {type(last).__name__} has neither coefficients nor importances, or is not fitted yet."
        )
    width = weights.shape[1]
    if names is None or (len(names) != width):
        if names is not None and not hasattr(model, "fields_"):
            raise InvalidProgram(f"explain(): there are {len(names)} names for {width} features.")
        names = range(width)
    outputs = list(getattr(last, "classes_", [None])) if len(weights) > 1 else [None]
    found = [
        FeatureWeight(name, float(weight), output)
        for output, row in zip(outputs, weights, strict=True)
        for name, weight in zip(names, row, strict=True)
    ]
    return sorted(found, key=lambda each: -abs(each.weight))


def _names(model: Any) -> Sequence[Any] | None:
    fields: Any = getattr(model, "fields_", None)
    for _, step in getattr(model, "steps", [])[:-1]:
        if fields is None or not hasattr(step, "get_feature_names_out"):
            return None
        try:
            fields = list(step.get_feature_names_out([str(field) for field in fields]))
        except ValueError:
            return None
    return fields  # type: ignore[no-any-return]

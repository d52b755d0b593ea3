"""The base of every estimator of ``funken.ml``: scikit-learn's interface, and distributed data.

An estimator derives from scikit-learn's class of the same name, and so has its parameters, ``get_params``, ``clone`` and its
fitted attributes. Arrays go to scikit-learn. Of distributed data, ``_fit_blocks`` computes the same attributes over the tasks;
what scikit-learn does to arrays with them (``transform``, ``predict``) is then done block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn import model_selection, pipeline
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from funken import DataStream
from funken.dataset import DataSet
from funken.errors import InvalidProgram
from funken.ml.data import (
    BLOCK_ROWS,
    BlockSet,
    FieldLayout,
    OfTask,
    block_of,
    demands_of,
    is_distributed,
    is_frame,
    spreads,
    with_column,
)
from funken.types.callables import S


class ApplyModel:
    """Pairs the records of a list with the results of a model's method for them."""

    def __init__(self, model: Any, method: str, fields: Any) -> None:
        self._model, self._method, self._fields = model, method, fields
        self._demands = demands_of(model, method, total=getattr(model, "n_features_in_", None))

    def __call__(self, records: list[Any]) -> list[Any]:
        """Return the pairs of some records."""
        if not records:
            return []
        layout = FieldLayout(self._fields).resolve(records[0], self._demands.caller)
        found = getattr(self._model, self._method)(block_of(records, layout, self._demands).X)
        found = found.toarray() if hasattr(found, "toarray") else found
        results = list(found) if getattr(found, "ndim", 1) > 1 else np.asarray(found).tolist()
        return list(zip(records, results, strict=True))


def applied(X: Any, function: ApplyModel) -> Any:
    """Apply a model to a data set or stream."""
    if isinstance(X, DataStream):
        return X.map_block(function)

    def pairs(values: Iterable[Any]) -> Iterator[Any]:
        iterator = iter(values)
        while some := list(islice(iterator, BLOCK_ROWS)):
            yield from function(some)

    return X.map_partition(pairs)


def check_arrays(X: object, y: object, caller: str) -> None:
    """Raise ``InvalidProgram`` for a table, and for a label's name where there is no field of it."""
    if type(X).__module__.startswith(("funken.table.", "funken.dataframe.")):
        raise InvalidProgram(f"{caller} got a {type(X).__name__}. Give to_pandas() of it, and the labels of that.")
    if isinstance(y, str):
        raise InvalidProgram(
            f"{caller}: y={y!r} names a field, which a data set, stream or DataFrame of Spark has. Of arrays, lists and pandas, "
            f"give the values, as in fit(frame[['a', 'b']], frame[{y!r}])."
        )


class DistributedEstimator:
    """The half of an estimator that handles ``DataSet``, ``DataStream`` and Spark ``DataFrame`` objects.

    ``fit(data, y="label")`` names the field of the label; ``features=[...]`` names those of the features (default: all others).
    The result of ``transform`` and ``predict`` is pairs of record and result; of a frame, the frame with one more column.

    >>> from funken.dataset import ExecutionEnvironment
    >>> from funken.ml import StandardScaler
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> points = env.from_elements((0.0, 1.0), (2.0, 3.0))
    >>> scaler = StandardScaler().fit(points)
    >>> scaler.mean_, scaler.transform(points).collect()
    (array([1., 2.]), [((0.0, 1.0), array([-1., -1.])), ((2.0, 3.0), array([1., 1.]))])
    """

    fields_: tuple[str | int, ...] | None = None
    _fit_blocks: Callable[[BlockSet], None]

    def fit(self, X: object, y: Any = None, *, features: Iterable[str | int] | None = None, **given: Any) -> Self:
        """Fit to arrays, or to distributed data."""
        if not is_distributed(X):
            if features is not None:
                raise InvalidProgram(
                    "fit(): features name fields of distributed data; choose the columns of an array yourself."
                )
            self.fields_ = None
            check_arrays(X, y, f"{type(self).__name__}.fit()")
            fitted: Self = super().fit(X, y, **given)  # type: ignore[misc]
            return fitted
        unknown = given.keys() - {"sample_weight"}
        if unknown:
            raise InvalidProgram(f"fit() of distributed data has no parameter {sorted(unknown)[0]!r}.")
        if hasattr(self, "_parameter_constraints"):  # scikit-learn's check of the parameters
            self._validate_params()  # type: ignore[attr-defined]
        blocks = BlockSet.of(X, y, given.get("sample_weight"), features, demands_of(self, "fit"))
        if getattr(self, "_needs_labels", False) and not blocks.labelled:
            raise InvalidProgram(
                f"{type(self).__name__}.fit() needs labels, but y names no field. Give its name or position: fit(data, y=1)."
            )
        self._fit_blocks(blocks)
        self.fields_ = blocks.fields
        return self

    def get_model_data(self) -> dict[str, Any]:
        """Return the fitted attributes, by name: the argument of ``set_model_data``.

        >>> from funken.ml import StandardScaler
        >>> data = StandardScaler().fit([[0.0], [2.0]]).get_model_data()
        >>> StandardScaler().set_model_data(data).transform([[2.0]])
        array([[1.]])
        """
        check_is_fitted(self)
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        return {name: value for name, value in vars(self).items() if name not in parameters}

    def set_model_data(self, data: Mapping[str, Any]) -> Self:
        """Make this the fitted estimator with these attributes, as another one's ``get_model_data`` returned them."""
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        before = dict(vars(self))
        vars(self).update({name: value for name, value in data.items() if name not in parameters})
        try:
            check_is_fitted(self)
        except NotFittedError:
            vars(self).clear()
            vars(self).update(before)
            raise InvalidProgram(
                f"{type(self).__name__}.set_model_data(): {', '.join(sorted(data)) or 'no attribute'} does not make a fitted "
                "estimator. Give the result of get_model_data()."
            ) from None
        return self

    def _spread(self, X: Any, method: str, output: str, kind: Callable[[], str]) -> Any:
        """Apply a method for arrays to distributed data."""
        if isinstance(X, BlockSet):
            return X.transformed(getattr(self, method))
        check_is_fitted(self)
        if is_frame(X):
            return with_column(X, output, kind(), self, method, self.fields_)
        return applied(X, ApplyModel(self, method, self.fields_))

    def _pairs(self, X: Any, y: Any, method: str) -> Any:
        check_is_fitted(self)
        demands = demands_of(self, "score", total=getattr(self, "n_features_in_", None))
        blocks = BlockSet.of(X, y, None, self.fields_, demands)
        if not blocks.labelled:
            raise InvalidProgram("score() needs the field of the label: score(data, y='label').")
        return blocks, getattr(self, method)


class DistributedTransformer(DistributedEstimator):
    """An estimator with ``transform``."""

    @spreads
    def transform(self, X: Any, *args: Any, **given: Any) -> Any:
        """Transform arrays; or pair the records of distributed data with their vectors."""
        if is_distributed(X):
            return self._spread(X, "transform", "features_out", lambda: "array<double>")
        return super().transform(X, *args, **given)  # type: ignore[misc]

    @spreads
    def fit_transform(self, X: Any, y: Any = None, **given: Any) -> Any:
        """Fit, then transform."""
        if is_distributed(X) and not isinstance(X, BlockSet):
            return self.fit(X, y, **given).transform(X)
        if isinstance(X, BlockSet):
            demands = demands_of(self, "fit_transform")
            blocks = BlockSet.of(X, y, given.pop("sample_weight", None), given.pop("features", None), demands)
            return self.fit(blocks, **given).transform(blocks)
        return super().fit_transform(X, y, **given)  # type: ignore[misc]


class OwnTransformer(DistributedTransformer, TransformerMixin, BaseEstimator):
    """A transformer that scikit-learn lacks: ``_fit_array`` and ``_transform_array`` handle arrays.

    If the number of features is all that ``fit`` needs, ``_begin`` takes it instead.
    """

    _transform_array: Callable[[Any], Any]

    def _begin(self, width: int) -> None:
        """Check the parameters, and prepare for vectors of a width."""
        raise NotImplementedError

    def _fit_array(self, X: Any) -> None:
        self._begin(int((X if sparse.issparse(X) else np.asarray(X)).shape[1]))

    def _fit_blocks(self, blocks: BlockSet) -> None:
        self._begin(width_of(blocks))

    def fit(self, X: object, y: Any = None, *, features: Iterable[str | int] | None = None, **given: Any) -> Self:
        """Fit to arrays, or to distributed data."""
        if is_distributed(X) or features is not None:
            return super().fit(X, y, features=features, **given)
        self.fields_ = None
        self._fit_array(X)
        return self

    @spreads
    def transform(self, X: Any, **given: Any) -> Any:
        """Transform arrays; or pair the records of distributed data with their vectors."""
        if is_distributed(X):
            return super().transform(X, **given)
        check_is_fitted(self)
        return self._transform_array(X)


def width_of(blocks: BlockSet) -> int:
    """Return the number of features; all records are looked at, as for every fit."""
    return int(blocks.aggregate(lambda block: block.X.shape[1], max))


class DistributedPredictor(DistributedEstimator):
    """An estimator with ``predict``."""

    @spreads
    def predict(self, X: Any, **given: Any) -> Any:
        """Predict for arrays; or pair the records of distributed data with their predictions."""
        if is_distributed(X):
            return self._spread(X, "predict", "prediction", self._kind)
        return super().predict(X, **given)  # type: ignore[misc]

    def _kind(self) -> str:
        classes = getattr(self, "classes_", None)
        if classes is None:
            return "int" if hasattr(self, "cluster_centers_") else "double"
        return {"i": "bigint", "u": "bigint", "f": "double", "b": "boolean"}.get(classes.dtype.kind, "string")


class DistributedRegressor(DistributedPredictor):
    """A predictor of numbers."""

    _needs_labels = True

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return R squared."""
        if not is_distributed(X):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        blocks, predict = self._pairs(X, y, "predict")

        def sums(block: Any) -> Any:
            off = block.y - predict(block.X)
            return np.array([len(block), block.y.sum(), (block.y**2).sum(), (off**2).sum()])

        n, total, squares, residual = blocks.aggregate(sums, np.add)
        return float(1 - residual / (squares - total**2 / n))


class DistributedClassifier(DistributedPredictor):
    """A predictor of classes."""

    _needs_labels = True

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return the accuracy."""
        if not is_distributed(X):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        blocks, predict = self._pairs(X, y, "predict")
        right, n = blocks.aggregate(lambda block: np.array([(block.y == predict(block.X)).sum(), len(block)]), np.add)
        return float(right / n)


class Probabilities:
    """A classifier that knows probabilities."""

    @spreads
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of every class, in the order of ``classes_``."""
        if is_distributed(X):
            return self._spread(  # type: ignore[attr-defined]
                X, "predict_proba", "probability", lambda: "array<double>"
            )
        return super().predict_proba(X)  # type: ignore[misc]


# ---- Pipelines over distributed data, and splits of it.


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

    def fit(self, X: object, y: Any = None, *, features: Iterable[str | int] | None = None, **given: Any) -> Self:
        """Fit all steps."""
        return super().fit(X, y, features=features, **given)

    def _fit_blocks(self, blocks: BlockSet) -> None:
        whole = blocks
        for at, (name, step) in enumerate(self.steps):
            if step is None or step == "passthrough":
                continue
            if isinstance(step, type):
                raise InvalidProgram(
                    f"the step {name!r} of the pipeline is the class {step.__name__}. Give an object: {step.__name__}()."
                )
            if not isinstance(step, DistributedEstimator):
                raise InvalidProgram(
                    f"the step {name!r} of the pipeline is a {type(step).__name__}, which fits arrays only. Take "
                    "its class from funken.ml, or fit the pipeline to a sample."
                )
            step.fit(blocks)
            if at < len(self.steps) - 1:
                if not isinstance(step, DistributedTransformer):
                    raise InvalidProgram(
                        f"the step {name!r} is not the last one, and has no transform(). Put it last: scalers and other "
                        "transformers come first."
                    )
                blocks = step.transform(blocks)
        self.fields_ = whole.fields

    def _kind(self) -> str:
        return str(self.steps[-1][1]._kind())

    @spreads
    def predict(self, X: Any, **given: Any) -> Any:
        """Predict for arrays, or for distributed data as the last step does."""
        if is_distributed(X):
            return self._spread(X, "predict", "prediction", self._kind)
        return pipeline.Pipeline.predict(self, X, **given)

    @spreads
    def predict_proba(self, X: Any, **given: Any) -> Any:
        """Return probabilities."""
        if is_distributed(X):
            return self._spread(X, "predict_proba", "probability", lambda: "array<double>")
        return pipeline.Pipeline.predict_proba(self, X, **given)

    @spreads
    def transform(self, X: Any, **given: Any) -> Any:
        """Transform with all steps."""
        if is_distributed(X):
            return self._spread(X, "transform", "features_out", lambda: "array<double>")
        return pipeline.Pipeline.transform(self, X, **given)

    @spreads
    def fit_transform(self, X: Any, y: Any = None, **given: Any) -> Any:
        """Fit, then transform."""
        return self.fit(X, y, **given).transform(X)

    def score(self, X: object, y: object = None, sample_weight: object = None, **given: Any) -> float:
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


def _drawn(share: float, seed: int, test: bool, task: int, values: Iterable[Any]) -> Iterable[Any]:
    """Return the records of the test set, or the others, by a generator of the task: the same in every run over a partition."""
    draw = np.random.default_rng([seed, task]).random
    return (value for value in values if (draw() < share) is test)


def train_test_split(*data: S, test_size: float = 0.25, random_state: int | None = None, **given: Any) -> list[S]:
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
    parts: list[Any]
    if isinstance(whole, DataSet):
        parts = [whole.map_partition(OfTask(partial(_drawn, test_size, seed, test))) for test in (False, True)]
    else:
        frame: Any = whole
        parts = list(frame.randomSplit([1 - test_size, test_size], seed))
    return parts


# ---- What a model has learned, by feature.


class FeatureWeight(NamedTuple):
    """The contribution of a feature; ``output`` is the class it speaks for, None if there is one output.

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

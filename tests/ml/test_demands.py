"""Records that differ from the first, or that an estimator cannot take: one error at every parallelism, or the right value."""

from __future__ import annotations

import re
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from funken import InvalidProgram, ml
from funken.dataset import ExecutionEnvironment
from funken.errors import FunkenError
from funken.testing import local

NUMERIC = {
    "scaler": ml.StandardScaler, "minmax": ml.MinMaxScaler, "maxabs": ml.MaxAbsScaler,
    "robust": ml.RobustScaler, "normalizer": ml.Normalizer, "polynomial": ml.PolynomialFeatures,
    "imputer": ml.SimpleImputer, "variance": ml.VarianceThreshold,
    "kmeans": lambda: ml.KMeans(2, random_state=1),
    "neighbors": lambda: ml.NearestNeighbors(n_neighbors=1),
}  # fmt: skip
CLASSIFIERS = {
    "logistic": ml.LogisticRegression, "svc": ml.LinearSVC, "gauss": ml.GaussianNB,
    "multinomial": ml.MultinomialNB, "knn": lambda: ml.KNeighborsClassifier(1),
    "votes": lambda: ml.PartitionClassifier(DecisionTreeClassifier(random_state=1)),
    "pipeline": lambda: ml.make_pipeline(ml.StandardScaler(), ml.LogisticRegression()), "best": lambda: ml.SelectKBest(k=1),
}  # fmt: skip
REGRESSORS = {
    "linear": ml.LinearRegression, "ridge": ml.Ridge, "lasso": lambda: ml.Lasso(0.01),
    "elastic": lambda: ml.ElasticNet(0.01), "knr": lambda: ml.KNeighborsRegressor(1),
    "mean": lambda: ml.PartitionRegressor(DecisionTreeRegressor(random_state=1)),
    "regression pipeline": lambda: ml.make_pipeline(ml.StandardScaler(), ml.Ridge()),
}  # fmt: skip
ALL = NUMERIC | CLASSIFIERS | REGRESSORS


def data(records: list[Any], parallelism: int) -> Any:
    return ExecutionEnvironment.create_local_environment(parallelism).from_collection(records)


def fitted(name: str, records: list[Any], parallelism: int, **options: Any) -> Any:
    label = {} if name in NUMERIC else {"y": "y"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ALL[name]().fit(data(records, parallelism), **label, **options)


def records(kind: str, count: int = 8, **changed: dict[str, Any]) -> list[Any]:
    """Return dicts with ``a``, ``b`` and a label; ``changed`` are those at a place, such as ``at_6={"a": None}``."""
    found = []
    for at in range(count):
        label: Any = ("no", "yes")[at % 2] if kind in CLASSIFIERS else float(at)
        record = (
            {"a": float(at % 3), "b": float(at), "y": label}
            if kind not in NUMERIC
            else {"a": float(at % 3), "b": float(at)}
        )
        found.append({**record, **changed.get(f"at_{at}", {})})
    return found


def refused(call: Any) -> str:
    with pytest.raises(FunkenError) as caught:
        call()
    return next(line for line in str(caught.value).splitlines() if "the record" in line or "fit()" in line)


BAD = {
    "text": ({"a": "many"}, "the feature 'a' of the record .* is the text 'many', but numbers are needed"),
    "digits": ({"a": "7"}, "is the text '7', but numbers are needed"),
    "vector": ({"a": (1.0, 2.0)}, "has 2 numbers in 'a', but the first one has no vector"),
    "infinite": ({"b": float("inf")}, "the feature 'b' of the record .* is NaN, None or infinite"),
    "more": ({"c": 5.0}, "has more fields than the first one"),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("bad", BAD)
def test_a_record_that_no_estimator_can_take_is_refused_alike_at_every_parallelism(name, bad):
    changed, fact = BAD[bad]
    texts = {refused(lambda p=p: fitted(name, records(name, at_6=changed), p)) for p in (1, 2, 3)}
    assert len(texts) == 1
    (text,) = texts
    assert f"{type(ALL[name]()).__name__}.fit()" in text
    assert re.search(fact, text), text


@pytest.mark.parametrize("name", ALL)
def test_a_record_without_a_field_is_refused(name):
    some = records(name)
    del some[6]["b"]
    assert len({refused(lambda p=p: fitted(name, some, p)) for p in (1, 2)}) == 1
    some[6]["d"] = 1.0
    (text,) = {refused(lambda p=p: fitted(name, some, p)) for p in (1, 2)}
    assert "lacks the field 'b'" in text


TAKES_NAN = {"scaler", "minmax", "maxabs", "robust", "imputer", "variance", "votes", "mean"}


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("name", ALL)
def test_a_missing_number_is_left_out_or_refused_as_scikit_learn_has_it(name, missing):
    def fit(parallelism: int) -> Any:
        return fitted(name, records(name, at_6={"a": missing}), parallelism)

    if name in TAKES_NAN or "pipeline" in name:  # a scaler leaves it out, what comes next fails at it
        if "pipeline" not in name:
            fit(1), fit(2)
        return
    (text,) = {refused(lambda p=p: fit(p)) for p in (1, 2)}
    assert "the feature 'a' of the record" in text and "NaN, None or infinite" in text


@pytest.mark.parametrize("name", {**CLASSIFIERS, **REGRESSORS})
@pytest.mark.parametrize(
    ("label", "fact"),
    [
        (None, "is missing"), (float("nan"), "is missing"), ((1, 2), "the label of the record"), (float("inf"), "is missing"),
    ],
)  # fmt: skip
def test_a_label_that_is_none_is_refused(name, label, fact):
    if name == "best":
        return
    (text,) = {refused(lambda p=p: fitted(name, records(name, at_6={"y": label}), p)) for p in (1, 2)}
    assert fact in text or "type" in text


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_labels_of_two_types_are_refused(name):
    if name == "best":
        return
    (text,) = {refused(lambda p=p: fitted(name, records(name, at_6={"y": 1}), p)) for p in (1, 2)}
    assert "is 1 (int), but that of the first record is a text" in text
    numbers = [{**record, "y": at % 2} for at, record in enumerate(records(name))]
    numbers[6]["y"] = "1"
    (text,) = {refused(lambda p=p: fitted(name, numbers, p)) for p in (1, 2)}
    assert "is the text '1', but that of the first record is a number" in text


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regression_of_texts_is_refused(name):
    (text,) = {refused(lambda p=p: fitted(name, records(name, at_6={"y": "many"}), p)) for p in (1, 2)}
    assert "is the text 'many', but a regression needs numbers" in text


@pytest.mark.parametrize("weight", [-1.0, float("nan"), None, float("inf"), "2"])
@pytest.mark.parametrize("name", ["logistic", "svc", "gauss", "linear", "ridge", "scaler"])
def test_a_weight_that_is_none_is_refused(name, weight):
    some = [{**record, "w": 1.0} for record in records(name)]
    some[6]["w"] = weight
    (text,) = {refused(lambda p=p: fitted(name, some, p, sample_weight="w")) for p in (1, 2)}
    assert "sample weight" in text


@pytest.mark.parametrize("name", ["logistic", "linear"])
def test_weights_of_nothing_are_refused(name):
    some = [{**record, "w": 0.0} for record in records(name)]
    with pytest.raises(FunkenError, match="all sample weights are 0"):
        fitted(name, some, 2, sample_weight="w")


@pytest.mark.parametrize("name", ALL)
def test_the_order_of_fields_does_not_matter(name):
    some = records(name)
    turned = [dict(reversed(record.items())) if at % 2 else record for at, record in enumerate(some)]
    for parallelism in (1, 2):
        one, other = fitted(name, some, parallelism), fitted(name, turned, parallelism)
        for attribute in ("mean_", "coef_", "scale_", "theta_", "statistics_", "cluster_centers_", "classes_"):
            if hasattr(one, attribute) and getattr(one, attribute) is not None:
                np.testing.assert_array_equal(getattr(one, attribute), getattr(other, attribute))


WIDTHS = {
    "narrow": ([(1.0, 2.0), (3.0, 4.0), (5.0, 6.0), (7.0,)], "the record (7.0,) has 1 number, but the first one has 2"),
    "short first": ([(1.0,), (1.0,), (2.0,), (1.0, 2.0)], "the record (1.0, 2.0) has 2 numbers, but the first one has 1"),
    "one task wide": ([(1.0, 2.0), (3.0, 4.0), (5.0, 6.0, 7.0), (7.0, 8.0, 9.0)], "has 3 numbers, but the first one has 2"),
    "arrays": ([np.ones(2), np.ones(2), np.ones(2), np.ones(1)], "has 1 number, but the first one has 2"),
    "lists": ([[1.0, 2.0], [1.0, 3.0], [1.0, 2.0], [1.0]], "has 1 number, but the first one has 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("case", WIDTHS)
def test_vectors_of_several_widths_are_refused_alike(name, case):
    vectors, fact = WIDTHS[case]
    (text,) = {refused(lambda p=p: fitted(name, vectors, p)) for p in (1, 2, 4)}
    assert fact in text


@pytest.mark.parametrize("name", {**CLASSIFIERS, **REGRESSORS})
def test_vectors_in_a_field_of_several_widths_are_refused_alike(name):
    some = [{"x": [1.0, float(at)], "y": record["y"]} for at, record in enumerate(records(name))]
    some[6]["x"] = [1.0]
    (text,) = {refused(lambda p=p: fitted(name, some, p)) for p in (1, 2)}
    assert "has 1 number in 'x', but the first one has 2" in text


@pytest.mark.parametrize("name", [name for name in ALL if name != "neighbors"])
@pytest.mark.parametrize(
    ("changed", "fact"),
    [
        ({"a": "many"}, "is the text 'many', but numbers are needed"), ({"a": (1.0, 2.0)}, "numbers"),
        ({"b": float("inf")}, "is NaN, None or infinite"),
    ],
)  # fmt: skip
def test_a_record_to_predict_or_transform_is_checked(name, changed, fact):
    for parallelism in (1, 2):
        env = ExecutionEnvironment.create_local_environment(parallelism)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ALL[name]().fit(env.from_collection(records(name)), **({} if name in NUMERIC else {"y": "y"}))
        method = "predict" if hasattr(model, "predict") else "transform"

        def ask(record: Any, model: Any = model, method: str = method, env: Any = env) -> Any:
            return getattr(model, method)(env.from_collection([record])).collect()

        text = refused(lambda ask=ask: ask({"a": 1.0, "b": 2.0, **changed}))
        assert fact in text and f".{method}()" in text
        few = refused(lambda ask=ask: ask({"a": 1.0}))
        assert f"{type(model).__name__}.{method}(): a record {{'a': 1.0}} has no field 'b'" in few


def test_too_few_and_too_many_numbers_to_predict():
    model = ml.KMeans(1, random_state=1).fit(data([(1.0, 2.0), (3.0, 4.0)], 2))
    for wrong in ((1.0,), (1.0, 2.0, 3.0)):
        text = refused(lambda wrong=wrong: model.predict(data([wrong], 2)).collect())
        assert f"KMeans.predict(): the record {wrong} has" in text and "but the model has 2" in text


def test_what_is_not_fitted_is_told_before_a_job_runs():
    with pytest.raises(NotFittedError):
        ml.LogisticRegression().predict(data([(1.0,)], 1))


def test_truth_values_and_decimals_are_numbers():
    for parallelism in (1, 2):
        scaler = ml.StandardScaler().fit(data([(True, Decimal("1.0")), (False, 2)], parallelism))
        assert scaler.mean_.tolist() == [0.5, 1.5]


def test_encoders_take_texts_and_none():
    model = ml.OneHotEncoder().fit(data([{"a": "x"}, {"a": None}, {"a": "y"}], 2))
    assert model.categories_[0].tolist() == ["x", "y", None]


def test_features_that_are_named_allow_other_fields():
    scaler = ml.StandardScaler().fit(data([{"a": 1.0}, {"a": 3.0, "note": "x"}], 2), features=["a"])
    assert scaler.mean_.tolist() == [2.0]


@pytest.mark.parametrize(
    "learner",
    [
        ml.OnlineKMeans(1, init=[(0, 0)], batch_size=2), ml.OnlineKMeans(1, batch_size=2),
        ml.OnlineStandardScaler(batch_size=2), ml.OnlineLogisticRegression(batch_size=2, init=[0.1, 0.1], label=1),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("wrong", [(3.0,), (3.0, 4.0, 5.0), (3.0, "x")])
@pytest.mark.parametrize("place", range(4))
def test_online_learners_check_records(learner, wrong, place):
    vectors: list[Any] = [(1.0, 2.0)] * 4
    vectors[place] = wrong
    if learner.label is not None:
        vectors = [(vector, 1) for vector in vectors]
    with pytest.raises(FunkenError, match=r"learn\(\): .*record .*(number|fields)"):
        learner.learn(local(vectors)).execute_and_collect(limit=9)


def test_an_online_label_is_checked():
    points = local([((1.0, 2.0), 1), ((1.0, 2.0), None)])
    with pytest.raises(FunkenError, match=r"OnlineLogisticRegression.learn\(\): the label of the record .* is missing"):
        ml.OnlineLogisticRegression(batch_size=2, label=1).learn(points).execute_and_collect(limit=9)


def test_ratings_are_numbers():
    with pytest.raises(InvalidProgram, match=r"ALS.fit\(\): the record \(0, 1, 'x'\) has the text 'x'"):
        ml.ALS(2).fit(data([(0, 0, 1.0), (0, 1, "x")], 1))

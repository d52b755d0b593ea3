"""What data an estimator takes: records of every kind, streams, pipelines, metrics, splits, ensembles, and mistakes."""

import dataclasses
from collections import namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import datasets, feature_extraction, metrics, pipeline, preprocessing
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from funken import DataGeneratorSource, InvalidProgram, Row, ml
from funken.dataset import ExecutionEnvironment
from funken.ml import metrics as measures
from funken.ml.preprocessing import transformers as statistics
from funken.ml.preprocessing.transformers import Quantiles
from funken.testing import SimulatedJob, local

X, y = datasets.load_iris(return_X_y=True)
NAMES = ["setosa", "versicolor", "virginica"]
Flower = namedtuple("Flower", ["a", "b", "c", "d", "kind"])


@dataclasses.dataclass
class Plant:
    a: float
    b: float
    c: float
    d: float
    kind: str


def environment(parallelism=2):
    return ExecutionEnvironment.create_local_environment(parallelism)


def flowers(kind=Flower):
    return [kind(*map(float, row), NAMES[label]) for row, label in zip(X, y, strict=True)]


@pytest.mark.parametrize(
    "records",
    [
        flowers(),
        flowers(Plant),
        [flower._asdict() for flower in flowers()],
        [Row(**flower._asdict()) for flower in flowers()],
    ],
)
def test_records_with_names(records):
    data = environment().from_collection(records)
    model = ml.LogisticRegression(max_iter=300).fit(data, y="kind")
    pairs = model.predict(data).collect()

    assert model.fields_ == ("a", "b", "c", "d")
    assert model.classes_.tolist() == NAMES
    assert [predicted for _, predicted in pairs] == model.predict(X).tolist()
    chosen = ml.StandardScaler().fit(data, features=["c"])
    assert chosen.mean_ == pytest.approx([X[:, 2].mean()])


def test_a_bounded_stream_is_fitted_and_any_stream_is_predicted():
    model = ml.GaussianNB().fit(local(flowers()), y="kind")
    pairs = SimulatedJob(model.predict(local(flowers(), parallelism=2))).run()

    assert sorted(pairs) == sorted(zip(flowers(), model.predict(X).tolist(), strict=True))


def test_weights_are_a_field():
    weights = 1 + np.arange(len(X)) % 3
    data = environment().from_collection(
        [(row.tolist(), float(label), float(w)) for row, label, w in zip(X, y, weights, strict=True)]
    )
    ours = ml.Ridge(1.0).fit(data, y=1, sample_weight=2)
    theirs = ml.Ridge(1.0).fit(X, y.astype(float), sample_weight=weights)

    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-9)


def test_texts_through_a_pipeline():
    texts = ["good tea", "good ale", "bad tea", "bad bad ale", "good good"]
    labels = [1, 1, 0, 0, 1]
    data = environment().from_collection(zip(texts, labels, strict=True))
    steps = ml.make_pipeline(ml.TfidfVectorizer(), ml.MultinomialNB())
    model = steps.fit(data, y=1)
    theirs = feature_extraction.text.TfidfVectorizer().fit(texts)

    assert model.steps[0][1].vocabulary_ == {word: int(n) for word, n in theirs.vocabulary_.items()}
    np.testing.assert_allclose(model.steps[0][1].transform(texts).toarray(), theirs.transform(texts).toarray())
    assert [predicted for _, predicted in model.predict(data).collect()] == labels
    counted = ml.CountVectorizer(max_features=2).fit(environment().from_collection(texts))
    assert sorted(counted.vocabulary_) == ["bad", "good"]


def test_a_pipeline_equals_that_of_scikit_learn_and_is_cross_validated_by_it():
    data = environment(4).from_collection(flowers())
    steps = [("scale", ml.StandardScaler()), ("select", ml.SelectKBest(k=3)), ("svm", ml.LinearSVC(tol=1e-9))]
    model = ml.Pipeline(steps).fit(data, y="kind")
    theirs = pipeline.Pipeline(
        [("scale", preprocessing.StandardScaler()), ("select", ml.SelectKBest(k=3)), ("svm", ml.LinearSVC(dual=False))]
    ).fit(X, y)

    assert model.score(data, y="kind") == pytest.approx(theirs.score(X, y), abs=0.01)
    assert ml.explain(model)[0].feature in {"a", "c", "d"}
    assert cross_val_score(ml.make_pipeline(ml.StandardScaler(), ml.LogisticRegression()), X, y).mean() > 0.9
    assert model.get_params()["select__k"] == 3


def test_trees_of_each_task_vote():
    data = environment(3).from_collection(flowers()).rebalance()
    model = ml.PartitionClassifier(DecisionTreeClassifier(), random_state=1).fit(data, y="kind")

    assert len(model.estimators_) == 3
    assert model.score(data, y="kind") > 0.95
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    numbers = environment(2).from_collection([(float(n), n * 2.0) for n in range(50)]).rebalance()
    regressor = ml.PartitionRegressor(DecisionTreeRegressor()).fit(numbers, y=1)
    assert regressor.score(numbers, y=1) > 0.9


def test_metrics_of_a_data_set_are_those_of_arrays():
    random = np.random.default_rng(1)
    true, predicted = random.integers(0, 3, 200).tolist(), random.integers(0, 3, 200).tolist()
    pairs = environment(4).from_collection(zip(true, predicted, strict=True))
    assert measures.accuracy_score(pairs) == pytest.approx(metrics.accuracy_score(true, predicted))
    assert (measures.confusion_matrix(pairs) == metrics.confusion_matrix(true, predicted)).all()
    for name in ("precision_score", "recall_score", "f1_score"):
        expected = getattr(metrics, name)(true, predicted, average="macro")
        assert getattr(measures, name)(pairs, average="macro") == pytest.approx(expected)
    for name in ("mean_squared_error", "mean_absolute_error", "r2_score"):
        assert getattr(measures, name)(pairs) == pytest.approx(getattr(metrics, name)(true, predicted))
    scores = [(n > 0, round(p + random.random(), 1)) for n, p in zip(true, predicted, strict=True)]
    expected = metrics.roc_auc_score(*zip(*scores, strict=True))
    assert measures.roc_auc_score(environment().from_collection(scores)) == pytest.approx(expected)


@given(
    st.lists(st.lists(st.integers(-50, 50), min_size=1, max_size=40), min_size=1, max_size=6),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
)
def test_quantiles_are_exact_while_all_points_are_kept(parts, at):
    whole = sum(
        (Quantiles.of(np.array(part, dtype=float)[:, None]) for part in parts[1:]),
        Quantiles.of(np.array(parts[0], dtype=float)[:, None]),
    )
    np.testing.assert_allclose(whole.at(at)[:, 0], np.quantile(np.concatenate(parts), at), atol=1e-9)


def test_a_summary_of_many_points_is_as_exact_as_it_says(monkeypatch):
    monkeypatch.setattr(statistics, "POINTS", 256)
    values = np.random.default_rng(2).permutation(20_000).astype(float)
    whole = Quantiles.of(values[:100, None])
    for at in range(100, 20_000, 100):
        whole = whole + Quantiles.of(values[at : at + 100, None])

    assert sum(map(len, whole.levels[0].values())) < 256 * 8
    np.testing.assert_allclose(whole.at([0.1, 0.5, 0.9])[:, 0] / 20_000, [0.1, 0.5, 0.9], atol=7 / 512)


def test_a_split_takes_each_record_once_and_again_the_same():
    data = environment(3).generate_sequence(1, 1000)
    train, test = ml.train_test_split(data, test_size=0.3, random_state=4)
    first = test.collect()

    assert sorted(train.collect() + first) == list(range(1, 1001))
    assert first == test.collect()
    assert 200 < len(first) < 400


def _endless():
    return local([]).get_execution_environment().from_source(DataGeneratorSource(float), source_name="endless")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda data: ml.LogisticRegression().fit(data), "needs labels"),
        (lambda data: ml.LogisticRegression().fit(data, y="colour"), "no field 'colour'"),
        (lambda data: ml.StandardScaler().fit(data, features=["a", "z"]), "no field 'z'"),
        (lambda data: ml.LogisticRegression().fit(data, y=np.zeros(3)), "name or position"),
        (
            lambda data: ml.Pipeline([("a", preprocessing.StandardScaler()), ("b", ml.GaussianNB())]).fit(
                data, y="kind"
            ),
            "step 'a'",
        ),
        (lambda data: ml.LogisticRegression().fit(data.filter(lambda f: f.kind == "setosa"), y="kind"), "one class"),
        (lambda data: ml.StandardScaler().fit(data.filter(lambda f: False)), "no record"),
        (lambda data: ml.KMeans(200).fit(data, features=["a"]), "200 clusters"),
        (lambda data: ml.LogisticRegression(l1_ratio=0.5).fit(data, y="kind"), "l1_ratio"),
        (lambda data: ml.ALS().fit([(-1, 0, 3.0)]), "negative"),
        (lambda data: ml.LogisticRegression().fit(X, y="kind"), "y='kind' names a field"),
        (lambda data: ml.LogisticRegression().fit(data.map(lambda f: (f.a, f.b / 7)), y=1), "needs classes"),
        (
            lambda data: ml.make_pipeline(ml.StandardScaler, ml.GaussianNB).fit(data, y="kind"),
            "an object: StandardScaler",
        ),
        (lambda data: ml.make_pipeline(ml.GaussianNB(), ml.StandardScaler()).fit(data, y="kind"), "Put it last"),
        (measures.accuracy_score, "needs pairs"),
        (lambda data: measures.accuracy_score(data, data), "got two arguments"),
        (lambda data: ml.save([1], "model"), "is no model"),
        (lambda data: ml.KMeans(2).fit(_endless()), "source 'endless' never ends"),
    ],
)
def test_a_mistake_is_named(wrong, message):
    with pytest.raises(Exception, match=message) as raised:
        wrong(environment().from_collection(flowers()))
    error = raised.value
    assert isinstance(error, InvalidProgram) or "InvalidProgram" in repr(error.__cause__) or message in str(error)


def test_fit_and_the_result_in_one_call():
    points = environment().from_collection([(0.0, 1.0), (2.0, 3.0)])

    assert [vector.tolist() for _, vector in ml.StandardScaler().fit_transform(points).collect()] == [[-1, -1], [1, 1]]
    assert {label for _, label in ml.KMeans(2, random_state=1).fit_predict(points).collect()} == {0, 1}

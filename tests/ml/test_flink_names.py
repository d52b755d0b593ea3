"""Transformers, evaluators and learners that Flink ML and FlinkML have and scikit-learn has not: cases of Flink's definitions."""

import functools

import numpy as np
import pytest
from sklearn import cluster, datasets, linear_model, metrics
from sklearn import preprocessing as sk

from funken import ml
from funken.dataset import ExecutionEnvironment
from funken.errors import InvalidProgram
from funken.ml.metrics import (
    BinaryClassificationEvaluator,
    area_under_pr,
    average_precision_score,
    ks_score,
)
from funken.testing import local

parallel = pytest.mark.parametrize("parallelism", [1, 3])


def data_set(*records, parallelism=2):
    return ExecutionEnvironment.create_local_environment(parallelism).from_elements(*records)


def results(pairs):
    """The results by record."""
    return {record: np.asarray(found).tolist() for record, found in pairs.collect()}


@parallel
def test_buckets_include_their_lower_border_and_the_last_one_both(parallelism):
    data = data_set((0.0,), (4.9,), (5.0,), (10.0,), parallelism=parallelism)
    found = results(ml.Bucketizer([0, 5, 10]).fit(data).transform(data))

    assert found == {(0.0,): [0.0], (4.9,): [0.0], (5.0,): [1.0], (10.0,): [1.0]}


@pytest.mark.parametrize("invalid", [11.0, -0.1, float("nan")])
def test_a_number_in_no_bucket_raises_is_dropped_or_has_a_bucket_of_its_own(invalid):
    splits = [0, 5, 10]
    with pytest.raises(InvalidProgram, match=r"in no bucket of \[0.0, 5.0, 10.0\]"):
        ml.Bucketizer(splits).fit_transform([[1.0], [invalid]])
    assert ml.Bucketizer(splits, handle_invalid="skip").fit_transform([[1.0], [invalid]]).tolist() == [[0.0]]
    assert ml.Bucketizer(splits, handle_invalid="keep").fit_transform([[1.0], [invalid]]).tolist() == [[0.0], [2.0]]


def test_each_feature_may_have_splits_of_its_own():
    found = ml.Bucketizer([[0, 1, 2], [0, 10, 20, 30]]).fit_transform([[1.5, 25.0], [0.5, 15.0]])
    assert found.tolist() == [[1.0, 2.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("splits", "words"),
    [([0, 1], "three or more rising"), ([0, 0, 1], "three or more rising"), ([[0, 1, 2]], "1 lists for 2 features")],
)
def test_splits_that_cannot_be_are_refused(splits, words):
    with pytest.raises(InvalidProgram, match=words):
        ml.Bucketizer(splits).fit([[0.0, 1.0]])


ORDERS = {
    "arbitrary": ["a", "b", "c"],
    "alphabet_asc": ["a", "b", "c"],
    "alphabet_desc": ["c", "b", "a"],
    "frequency_desc": ["b", "a", "c"],
    "frequency_asc": ["a", "c", "b"],
}


@parallel
@pytest.mark.parametrize("order", ORDERS)
def test_values_have_indices_in_the_order_that_is_asked_for(order, parallelism):
    data = data_set(("b",), ("a",), ("c",), ("b",), parallelism=parallelism)
    indexer = ml.StringIndexer(order=order).fit(data)
    assert indexer.values_ == [ORDERS[order]]

    indices = results(indexer.transform(data))
    assert indices == {(value,): [float(ORDERS[order].index(value))] for value in "abc"}
    back = ml.IndexToString(indexer.values_).fit_transform([indices[("c",)], indices[("a",)]])
    assert back.tolist() == [["c"], ["a"]]
    assert indexer.inverse_transform([[1.0]]).tolist() == [[ORDERS[order][1]]]


def test_values_that_were_not_fitted():
    fit = [["a"], ["b"], ["b"]]
    with pytest.raises(InvalidProgram, match="'z' of feature 0 was not there"):
        ml.StringIndexer().fit(fit).transform([["z"]])
    assert ml.StringIndexer(handle_invalid="keep").fit(fit).transform([["z"], ["a"]]).tolist() == [[2.0], [0.0]]
    assert ml.StringIndexer(handle_invalid="skip").fit(fit).transform([["z"], ["a"]]).tolist() == [[0.0]]
    few = ml.StringIndexer(order="frequency_desc", max_index=1, handle_invalid="keep").fit(fit)
    assert few.transform([["a"], ["b"]]).tolist() == [[1.0], [0.0]]
    with pytest.raises(InvalidProgram, match="has 7.0, but its indices are 0 to 1"):
        ml.IndexToString([["a", "b"]]).fit_transform([[7.0]])


@pytest.mark.parametrize(
    "kind", [ml.Bucketizer([0, 1, 2], handle_invalid="skip"), ml.StringIndexer(handle_invalid="skip")]
)
def test_rows_of_distributed_data_are_not_dropped_silently(kind):
    data = data_set((1.0,), (2.0,))
    for use in (kind.fit, kind.fit([[1.0], [2.0]]).transform):
        with pytest.raises(InvalidProgram, match="drops rows of arrays only"):
            use(data)


def test_a_choice_that_does_not_exist_is_named():
    with pytest.raises(InvalidProgram, match="order is 'by size', but has to be one of arbitrary, frequency_desc"):
        ml.StringIndexer(order="by size").fit([["a"]])


def test_vectors_are_assembled_and_cut():
    data = data_set((1.0, [2.0, 3.0], "a"), (4.0, [5.0, 6.0], "b"))
    vectors = ml.VectorAssembler().fit(data, features=[0, 1]).transform(data).collect()
    assert sorted(vector.tolist() for _, vector in vectors) == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert ml.VectorSlicer([2, 0]).fit_transform([[1.0, 2.0, 3.0]]).tolist() == [[3.0, 1.0]]
    for wrong in ([3], [0, 0], []):
        with pytest.raises(InvalidProgram, match="have to be distinct, one at least, and from 0 to 2"):
            ml.VectorSlicer(wrong).fit([[1.0, 2.0, 3.0]])

    missing = [[1.0, float("nan")], [2.0, 3.0]]
    with pytest.raises(InvalidProgram, match="has NaN. Impute it"):
        ml.VectorAssembler().fit_transform(missing)
    assert ml.VectorAssembler(handle_invalid="skip").fit_transform(missing).tolist() == [[2.0, 3.0]]
    assert len(ml.VectorAssembler(handle_invalid="keep").fit_transform(missing)) == 2


def test_fields_are_hashed_by_name_and_value():
    hasher = ml.FeatureHasher(64, categorical=["code"])
    rows = [{"city": "Rome", "age": 3.0, "code": 7}, {"city": "Rome", "age": 4.0, "code": 8}]
    array = hasher.fit_transform(rows).toarray()
    same = array[0] == array[1]
    assert array.sum(axis=1).tolist() == [5.0, 6.0] and (~same).sum() == 3  # the age, and both codes

    data = data_set(*rows)
    found = hasher.fit(data, features=["city", "age", "code"]).transform(data).collect()
    assert sorted((row["age"], vector.tolist()) for row, vector in found) == [
        (row["age"], vector.tolist()) for row, vector in zip(rows, array, strict=True)
    ]


def sets(count, seed):
    chance = np.random.default_rng(seed)
    found = {tuple((chance.random(12) < 0.4).astype(float).tolist()) for _ in range(count)}
    return sorted(each for each in found if any(each))


def jaccard(one, other):
    a, b = np.array(one) > 0, np.array(other) > 0
    return 1 - (a & b).sum() / (a | b).sum()


@parallel
def test_similar_sets_are_found_and_each_pair_once(parallelism):
    records = sets(30, 1)
    data = data_set(*records, parallelism=parallelism)
    lsh = ml.MinHashLSH(tables=60, seed=3).fit(data)
    found = lsh.approx_similarity_join(data, data, 0.45).collect()

    exact = {(a, b): jaccard(a, b) for a in records for b in records if jaccard(a, b) < 0.45}
    assert len(found) == len({(a, b) for a, b, _ in found}), "once"
    assert {(a, b): pytest.approx(d) for a, b, d in found} == exact


def test_a_pair_of_distant_sets_is_no_candidate_and_more_functions_compare_less():
    records = sets(40, 2)
    data = data_set(*records)
    few, many = (len(ml.MinHashLSH(tables=2, functions=f, seed=1).fit(data).approx_similarity_join(data, data, 2.0).collect())
                 for f in (1, 4))  # fmt: skip
    assert len(records) <= many < few < len(records) ** 2


def test_the_nearest_of_a_set():
    records = sets(30, 1)
    data = data_set(*records)
    key = records[4]
    found = ml.MinHashLSH(tables=60, seed=3).fit(data).approx_nearest_neighbors(data, key, 3)

    assert found[0] == (key, 0.0)
    assert [distance for _, distance in found] == pytest.approx(sorted(jaccard(key, each) for each in records)[:3])
    with pytest.raises(InvalidProgram, match="the empty set"):
        ml.MinHashLSH().fit(data).transform([[0.0] * 12])


def test_agglomerative_clusters_of_a_data_set_are_those_of_the_array():
    X = datasets.load_iris().data
    own = ml.AgglomerativeClustering(3).fit_predict(data_set(*map(tuple, X.tolist()))).collect()
    ours = [label for _, label in sorted(own)]
    theirs = cluster.AgglomerativeClustering(3).fit_predict(np.array(sorted(map(tuple, X.tolist()))))

    assert metrics.adjusted_rand_score(ours, theirs) == 1.0


@parallel
def test_gradient_descent_moves_as_flinkml_says(parallelism):
    rows = [(1.0, 3.0), (2.0, 5.0), (3.0, 7.0), (4.0, 9.0)]
    data = data_set(*rows, parallelism=parallelism)
    one = ml.MultipleLinearRegression(iterations=1, stepsize=0.1).fit(data, y=1)
    assert (one.intercept_, one.coef_.tolist(), one.n_iter_) == (pytest.approx(1.2), pytest.approx([3.5]), 1)

    far = ml.MultipleLinearRegression(iterations=2000, stepsize=0.1, learning_rate="constant").fit(data, y=1)
    assert (far.intercept_, far.coef_.tolist()) == (pytest.approx(1, abs=1e-3), pytest.approx([2], abs=1e-3))
    assert {record: value for record, value in far.predict(data).collect()} == pytest.approx(
        dict(zip(rows, [3, 5, 7, 9], strict=True)), abs=1e-2
    )
    assert far.score(data, y=1) == pytest.approx(1.0)


def test_gradient_descent_comes_to_the_least_squares():
    X, y = datasets.load_diabetes(return_X_y=True)
    X = sk.StandardScaler().fit_transform(X)
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    ours = ml.MultipleLinearRegression(
        iterations=5000, stepsize=0.1, learning_rate="constant", convergence_threshold=1e-9
    ).fit(X, y, sample_weight=weights)
    exact = linear_model.LinearRegression().fit(X, y, sample_weight=weights)

    assert ours.n_iter_ < 5000, "it stops when the residual falls no more"
    assert ours.score(X, y, weights) == pytest.approx(exact.score(X, y, weights), abs=1e-3)


def test_steps_that_are_too_large_are_said():
    with pytest.raises(InvalidProgram, match=r"grow without bound at iteration .* Lower the stepsize 1000"):
        ml.MultipleLinearRegression(iterations=400, stepsize=1000.0).fit([[10.0], [20.0]], [1.0, 2.0])


LABELS, SCORES = [0, 0, 1, 0, 1, 0, 1, 1], [0.1, 0.2, 0.15, 0.25, 0.75, 0.8, 0.9, 0.25]


def test_metrics_of_two_classes_by_flinks_names():
    precision, recall, _ = metrics.precision_recall_curve(LABELS, SCORES)
    precision[-1] = precision[-2]  # the curve begins with the precision of the highest score, as Flink's
    false, true, _ = metrics.roc_curve(LABELS, SCORES, drop_intermediate=False)
    ranked = sorted(zip(SCORES, LABELS, strict=True), reverse=True)
    best = [[label for score, label in ranked if score >= least] for least in sorted(set(SCORES), reverse=True)]
    shares, hits = (
        [0.0, *(len(each) / len(ranked) for each in best)],
        [0.0, *(sum(each) / sum(LABELS) for each in best)],
    )
    wanted = {
        "areaUnderROC": metrics.roc_auc_score(LABELS, SCORES),
        "areaUnderPR": metrics.auc(recall, precision),
        "ks": float(np.abs(true - false).max()),
        "areaUnderLorenz": metrics.auc(shares, hits),
    }
    pairs = data_set(*zip(LABELS, SCORES, strict=True), parallelism=3)

    assert BinaryClassificationEvaluator(list(wanted)).evaluate(LABELS, SCORES) == pytest.approx(wanted)
    assert BinaryClassificationEvaluator(list(wanted)).evaluate(pairs) == pytest.approx(wanted)
    assert average_precision_score(pairs) == pytest.approx(metrics.average_precision_score(LABELS, SCORES))


def test_metrics_of_two_classes_refuse_other_data():
    with pytest.raises(InvalidProgram, match="needs 0 and 1"):
        ks_score([0, 2], [0.1, 0.2])
    with pytest.raises(InvalidProgram, match="needs records of both"):
        area_under_pr([1, 1], [0.1, 0.2])
    with pytest.raises(InvalidProgram, match="no metric 'auc'. Choose from areaUnderROC"):
        BinaryClassificationEvaluator(["auc"])


def test_online_centres_begin_with_weights():
    points = [(10.0, 0.0), (10.0, 0.3), (10.3, 0.0), (-10.0, 0.0), (-10.0, 0.6), (-10.6, 0.0)]
    heavy = ml.OnlineKMeans(2, decay=1.0, init=[[1.0, 0.0], [-1.0, 0.0]], init_weights=[3.0, 0.0], batch_size=6)
    _, _, model = heavy.learn(local(points)).execute_and_collect(limit=1)[0]

    assert model.centers.round(6).tolist() == [[5.55, 0.05], [-10.2, 0.2]]
    assert model.weights.tolist() == [6.0, 3.0]
    for wrong in ({"init_weights": [1.0, 1.0]}, {"init": [[1.0], [2.0]], "init_weights": [1.0]}):
        with pytest.raises(InvalidProgram, match="init_weights needs init"):
            ml.OnlineKMeans(2, **wrong).learn(local([(1.0,)])).execute_and_collect(limit=1)


FITTED = [
    kind for name in ml.__all__
    if isinstance(kind := getattr(ml, name), type) and hasattr(kind, "get_model_data")
    and name not in ("PartitionClassifier", "PartitionRegressor", "AgglomerativeClustering", "ALS", "Pipeline")
]  # fmt: skip
NEEDED = {"Bucketizer": ([0, 5, 10],), "VectorSlicer": ([0],), "IndexToString": ([list(range(10))] * 2,)}
PARAMETERS = {
    "SelectKBest": {"k": 1},
    "KMeans": {"n_clusters": 2, "random_state": 1},
    "KBinsDiscretizer": {"n_bins": 2, "encode": "ordinal", "strategy": "uniform"},
    "KNeighborsClassifier": {"n_neighbors": 2},
    "KNeighborsRegressor": {"n_neighbors": 2},
    "NearestNeighbors": {"n_neighbors": 2},
}
TEXTS = {"HashingVectorizer", "CountVectorizer", "TfidfVectorizer"}


@pytest.mark.parametrize("kind", FITTED, ids=lambda kind: kind.__name__)
def test_model_data_make_another_estimator_the_same(kind):
    make = functools.partial(kind, *NEEDED.get(kind.__name__, ()))
    X = [[1.0, 2.0], [1.0, 3.0], [9.0, 8.0], [8.0, 9.0], [2.0, 1.0], [7.0, 7.0]]
    X = ["red blue", "blue green", "green"] if kind.__name__ in TEXTS else [1, 2, 3] if kind is ml.LabelEncoder else X
    given = {"y": [0, 0, 1, 1, 0, 1]} if len(X) == 6 else {}
    parameters = PARAMETERS.get(kind.__name__, {})
    fitted = make(**parameters).fit(X, **given)
    other = make(**parameters).set_model_data(fitted.get_model_data())

    apply = next(name for name in ("predict", "transform", "kneighbors") if hasattr(kind, name))
    ours, theirs = (np.asarray(_dense(getattr(each, apply)(X))).tolist() for each in (other, fitted))
    assert ours == theirs


def _dense(values):
    return values.toarray() if hasattr(values, "toarray") else values


def test_data_that_make_no_fitted_estimator_are_refused_and_change_nothing():
    for wrong, words in ({"centers": 1}, "centers does not make a fitted"), ({}, "no attribute does not make a fitted"):
        model = ml.KMeans(2)
        with pytest.raises(InvalidProgram, match=words):
            model.set_model_data(wrong)
        assert not hasattr(model, "centers")
    with pytest.raises(InvalidProgram, match="Ask its steps"):
        ml.make_pipeline(ml.StandardScaler()).fit([[1.0], [2.0]]).get_model_data()


def test_missing_values_have_no_index():
    for missing in (None, float("nan")):
        indexer = ml.StringIndexer(handle_invalid="keep").fit([["b"], [missing], ["a"]])
        assert indexer.values_ == [["a", "b"]] and indexer.transform([[missing], ["b"]]).tolist() == [[2.0], [1.0]]


def test_initial_weights_of_another_width_are_said():
    with pytest.raises(InvalidProgram, match="initial_weights has 2 numbers, but 2 features and the intercept need 3"):
        ml.MultipleLinearRegression(initial_weights=[0.0, 1.0]).fit([[1.0, 2.0]] * 3, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "model",
    [
        ml.Bucketizer([0, 5, 10]), ml.StringIndexer(), ml.KBinsDiscretizer(2, encode="ordinal", quantile_method="linear"),
        ml.MinHashLSH(tables=2, seed=1), ml.Binarizer(), ml.VectorSlicer([0]), ml.VectorAssembler(),
    ],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
def test_new_transformers_are_saved_and_loaded(model, tmp_path):
    X = [[1.0, 2.0], [5.0, 3.0], [9.0, 8.0]]
    ml.save(model.fit(X), tmp_path / "model")
    assert np.array_equal(ml.load(tmp_path / "model").transform(X), model.transform(X))

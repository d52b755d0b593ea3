"""Fitted to distributed data, every estimator is what scikit-learn's is of the same rows, whatever the parallelism."""

import numpy as np
import pytest
from sklearn import (
    cluster,
    datasets,
    feature_extraction,
    feature_selection,
    impute,
    linear_model,
    naive_bayes,
    neighbors,
    preprocessing,
    svm,
)
from sklearn.base import clone

from funken import ml
from funken.dataset import ExecutionEnvironment
from funken.ml.training import neighbors as clustering
from funken.ml.training.neighbors import Drawn, nearest

parallel = pytest.mark.parametrize("parallelism", [1, 2, 4])


def rows(X, y=None, parallelism=2):
    env = ExecutionEnvironment.create_local_environment(parallelism)
    if y is None:
        return env.from_collection([row.tolist() for row in X])
    return env.from_collection([(row.tolist(), label) for row, label in zip(X, y.tolist(), strict=True)])


def spoiled(X):
    found = X.copy()
    found[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    return found


IRIS = datasets.load_iris(return_X_y=True)
CANCER = datasets.load_breast_cancer(return_X_y=True)
DIABETES = datasets.load_diabetes(return_X_y=True)
EXERCISE, PHYSIOLOGY = datasets.load_linnerud(return_X_y=True)
LINNERUD = EXERCISE, PHYSIOLOGY[:, 1]
WINE = datasets.load_wine(return_X_y=True)
DIGITS = datasets.load_digits(return_X_y=True)
SCALED = preprocessing.StandardScaler().fit_transform(CANCER[0]), CANCER[1]

TRANSFORMERS = {
    "standard": (ml.StandardScaler(), preprocessing.StandardScaler(), CANCER[0]),
    "standard of missing": (
        ml.StandardScaler(with_mean=False),
        preprocessing.StandardScaler(with_mean=False),
        spoiled(WINE[0]),
    ),
    "constant features": (ml.StandardScaler(), preprocessing.StandardScaler(), DIGITS[0]),
    "min-max": (ml.MinMaxScaler((-1, 1)), preprocessing.MinMaxScaler((-1, 1)), DIGITS[0]),
    "max-abs": (ml.MaxAbsScaler(), preprocessing.MaxAbsScaler(), DIABETES[0]),
    "robust": (ml.RobustScaler(), preprocessing.RobustScaler(), spoiled(CANCER[0])),
    "normalizer": (ml.Normalizer(), preprocessing.Normalizer(), WINE[0]),
    "polynomial": (ml.PolynomialFeatures(3), preprocessing.PolynomialFeatures(3), IRIS[0]),
    "one-hot": (
        ml.OneHotEncoder(sparse_output=False),
        preprocessing.OneHotEncoder(sparse_output=False),
        DIGITS[0][:, :20],
    ),
    "ordinal": (ml.OrdinalEncoder(), preprocessing.OrdinalEncoder(), IRIS[0]),
    "mean": (ml.SimpleImputer(), impute.SimpleImputer(), spoiled(WINE[0])),
    "median": (ml.SimpleImputer(strategy="median"), impute.SimpleImputer(strategy="median"), spoiled(WINE[0])),
    "most frequent": (
        ml.SimpleImputer(strategy="most_frequent"),
        impute.SimpleImputer(strategy="most_frequent"),
        spoiled(IRIS[0]),
    ),
    "binarizer": (ml.Binarizer(threshold=3.0), preprocessing.Binarizer(threshold=3.0), IRIS[0]),
    "bins of equal width": (
        ml.KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform"),
        preprocessing.KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform"),
        IRIS[0],
    ),
    "bins of equal counts": (
        ml.KBinsDiscretizer([3, 4, 5, 6], encode="ordinal", quantile_method="linear"),
        preprocessing.KBinsDiscretizer([3, 4, 5, 6], encode="ordinal", quantile_method="linear"),
        IRIS[0],
    ),
    "variance": (ml.VarianceThreshold(), feature_selection.VarianceThreshold(), DIGITS[0]),
    "tf-idf": (
        ml.TfidfTransformer(),
        feature_extraction.text.TfidfTransformer(),
        np.random.default_rng(0).integers(0, 3, (40, 9)).astype(float),
    ),
}


@parallel
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_transformer(name, parallelism):
    ours, theirs, X = TRANSFORMERS[name]
    expected = theirs.fit_transform(X)
    expected = expected.toarray() if hasattr(expected, "toarray") else expected
    model = clone(ours).fit(rows(X, parallelism=parallelism))
    found = model.transform(X)

    np.testing.assert_allclose(found.toarray() if hasattr(found, "toarray") else found, expected, rtol=1e-9, atol=1e-9)
    pairs = model.transform(rows(X[:50], parallelism=parallelism)).collect()
    np.testing.assert_allclose(np.array([vector for _, vector in pairs]), expected[:50], rtol=1e-9, atol=1e-9)


NEWTON = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 200}
PREDICTORS = {
    "least squares": (ml.LinearRegression(), linear_model.LinearRegression(), DIABETES, 1e-8),
    "ridge": (ml.Ridge(0.5), linear_model.Ridge(0.5), DIABETES, 1e-8),
    "no intercept": (ml.Ridge(2.0, fit_intercept=False), linear_model.Ridge(2.0, fit_intercept=False), DIABETES, 1e-8),
    "few rows": (ml.LinearRegression(), linear_model.LinearRegression(), LINNERUD, 1e-8),
    "ridge of few rows": (ml.Ridge(10.0), linear_model.Ridge(10.0), LINNERUD, 1e-8),
    "lasso": (ml.Lasso(0.3, tol=1e-10), linear_model.Lasso(0.3, tol=1e-10), DIABETES, 1e-6),
    "elastic net": (
        ml.ElasticNet(0.01, l1_ratio=0.3, tol=1e-10),
        linear_model.ElasticNet(0.01, l1_ratio=0.3, tol=1e-10),
        DIABETES,
        1e-6,
    ),
    "logistic": (
        ml.LogisticRegression(C=0.7, tol=1e-9),
        linear_model.LogisticRegression(C=0.7, **NEWTON),
        SCALED,
        1e-6,
    ),
    "softmax": (ml.LogisticRegression(tol=1e-9), linear_model.LogisticRegression(**NEWTON), IRIS, 1e-5),
    "svm": (ml.LinearSVC(tol=1e-9), svm.LinearSVC(dual=False, tol=1e-10, max_iter=10000), SCALED, 1e-4),
    "svm of three": (
        ml.LinearSVC(C=0.1, tol=1e-9),
        svm.LinearSVC(C=0.1, dual=False, tol=1e-10, max_iter=10000),
        IRIS,
        1e-4,
    ),
}


@parallel
@pytest.mark.parametrize("name", PREDICTORS)
def test_a_linear_model(name, parallelism):
    ours, theirs, (X, y), tolerance = PREDICTORS[name]
    theirs.fit(X, y)
    model = clone(ours).fit(rows(X, y, parallelism), y=1)

    scale = np.abs(theirs.coef_).max()
    np.testing.assert_allclose(model.coef_, theirs.coef_, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, rtol=tolerance, atol=tolerance * scale)
    assert model.score(rows(X, y, parallelism), y=1) == pytest.approx(theirs.score(X, y), abs=1e-9)


@parallel
@pytest.mark.parametrize(
    ("ours", "theirs", "data"),
    [
        (ml.GaussianNB(), naive_bayes.GaussianNB(), WINE),
        (ml.MultinomialNB(), naive_bayes.MultinomialNB(), DIGITS),
        (ml.KNeighborsClassifier(3), neighbors.KNeighborsClassifier(3), IRIS),
    ],
)
def test_probabilities(ours, theirs, data, parallelism):
    X, y = data
    model = clone(ours).fit(rows(X, y, parallelism), y=-1)

    np.testing.assert_allclose(model.predict_proba(X), theirs.fit(X, y).predict_proba(X), rtol=1e-6, atol=1e-12)


@parallel
def test_k_means_from_given_centers(parallelism):
    X = DIGITS[0]
    init = X[:10]
    theirs = cluster.KMeans(10, init=init, n_init=1, algorithm="lloyd").fit(X)
    model = ml.KMeans(10, init=init).fit(rows(X, parallelism=parallelism))

    np.testing.assert_allclose(model.cluster_centers_, theirs.cluster_centers_, atol=1e-9)
    assert model.n_iter_ == theirs.n_iter_
    assert model.inertia_ == pytest.approx(theirs.inertia_)
    assert (model.predict(X) == theirs.labels_).all()


@parallel
def test_k_means_begun_at_random_finds_clusters_as_good(parallelism):
    X, _ = datasets.make_blobs(600, centers=5, cluster_std=0.3, random_state=3)
    theirs = cluster.KMeans(5, n_init=10, random_state=0).fit(X)
    model = ml.KMeans(5, random_state=1).fit(rows(X, parallelism=parallelism))

    assert model.inertia_ == pytest.approx(theirs.inertia_, rel=1e-6)


@parallel
def test_k_means_begun_with_a_sample_finds_clusters_as_good(parallelism, monkeypatch):
    X, _ = datasets.make_blobs(3000, centers=5, cluster_std=0.3, random_state=3)
    monkeypatch.setattr(clustering, "SAMPLE", 300)
    seen = []
    of = Drawn.of
    monkeypatch.setattr(Drawn, "of", lambda most, X, *more: seen.append(len(X)) or of(most, X, *more))
    theirs = cluster.KMeans(5, n_init=10, random_state=0).fit(X)
    model = ml.KMeans(5, random_state=1).fit(rows(X, parallelism=parallelism))

    assert model.inertia_ == pytest.approx(theirs.inertia_, rel=1e-6)
    assert 200 * clustering.ROUNDS < sum(seen) < 400 * clustering.ROUNDS


@parallel
def test_als_falls_and_does_not_depend_on_the_parallelism(parallelism):
    random = np.random.default_rng(0)
    U, V = random.random((60, 3)), random.random((40, 3))
    pairs = [(u, i) for u in range(60) for i in range(40) if random.random() < 0.4]
    ratings = [(u, i, float(U[u] @ V[i])) for u, i in pairs]
    env = ExecutionEnvironment.create_local_environment(parallelism)
    settings = {"n_factors": 3, "regularization": 1e-3, "random_state": 5}
    losses = []
    for steps in (1, 3, 12):
        model = ml.ALS(max_iter=steps, **settings).fit(env.from_collection(ratings))
        losses.append(float(np.mean((model.predict(pairs) - [r for _, _, r in ratings]) ** 2)))
    assert losses[0] > losses[1] > losses[2]
    assert losses[2] < 1e-3
    local = ml.ALS(max_iter=12, **settings).fit(ratings)
    np.testing.assert_allclose(model.user_factors_, local.user_factors_, rtol=1e-6, atol=1e-8)


def test_ratings_of_one_pair_count_each():
    random = np.random.default_rng(2)
    ratings = [
        (int(u), int(i), float(r)) for u, i, r in zip(*random.integers(0, 4, (2, 60)), random.random(60), strict=True)
    ]

    model = ml.ALS(2, regularization=0.1, max_iter=6, random_state=3).fit(ratings)

    for user in range(4):  # the factors of users belong to the items before the last half step: compare those of items
        own = [(u, r) for u, i, r in ratings if i == user]
        U, r = model.user_factors_[[u for u, _ in own]], np.array([rating for _, rating in own])
        right = np.linalg.solve(U.T @ U + 0.1 * len(own) * np.eye(2), U.T @ r)
        np.testing.assert_allclose(model.item_factors_[user], right, rtol=1e-9)


@parallel
def test_rows_are_drawn_by_their_weights(parallelism):
    weights = np.array([0.0, 1.0, 2.0, 5.0])
    counts = np.zeros(4)
    for seed in range(3000):
        random = np.random.default_rng(seed)
        parts = [
            Drawn.of(1, rows[:, None], weights[rows], random) for rows in np.array_split(np.arange(4), parallelism)
        ]
        counts[int(sum(parts[1:], parts[0]).rows[0, 0])] += 1

    np.testing.assert_allclose(counts / 3000, weights / 8, atol=0.03)


def test_the_nearest_center_is_that_of_all_distances():
    random = np.random.default_rng(4)
    for rows, count in ((1, 1), (9000, 3), (9000, 16), (300, 17), (20, 60)):
        points, centers = random.normal(size=(rows, 5)), random.normal(size=(count, 5))
        squares = ((points[:, None] - centers) ** 2).sum(axis=2)
        places, found = nearest(points, np.concatenate([centers, centers]))
        assert (places == squares.argmin(axis=1)).all()
        np.testing.assert_allclose(found, squares.min(axis=1), atol=1e-12)

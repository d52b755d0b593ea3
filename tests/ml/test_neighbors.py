"""Nearest neighbours of data sets: those of scikit-learn, and the rows are in no place together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import datasets, neighbors

from funken import InvalidProgram, ml
from funken.dataset import ExecutionEnvironment
from funken.ml import data as sources
from funken.ml.data import FeatureBlock
from funken.ml.training import neighbors as ours
from funken.testing import SimulatedJob, local

X, y = datasets.load_wine(return_X_y=True)
NAMES = np.array(["a", "b", "c"], dtype=object)[y]
parallel = pytest.mark.parametrize("parallelism", [1, 2, 4])


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Let the few rows of these tests be many blocks, and fail a test that gathers rows without need."""
    monkeypatch.setattr(ours, "_ROWS", 13)
    cut = sources.blocks_of
    monkeypatch.setattr(sources, "blocks_of", lambda values, layout, demands: cut(values, layout, demands, rows=50))


def never(self):
    raise AssertionError("all rows were gathered")


def data(env, labels):
    return env.from_collection([(row.tolist(), label) for row, label in zip(X, labels.tolist(), strict=True)])


@parallel
@pytest.mark.parametrize(
    "settings", [{}, {"weights": "distance"}, {"metric": "manhattan"}, {"weights": lambda d: 1 / (1 + d)}]
)
def test_predictions_are_those_of_all_rows_in_one_place(parallelism, settings, monkeypatch):
    monkeypatch.setattr(sources.BlockSet, "gather", never)
    env = ExecutionEnvironment.create_local_environment(parallelism)
    asking = env.from_collection([(row.tolist(), "?") for row in X[::6] + 0.01])
    right = neighbors.KNeighborsClassifier(4, **settings).fit(X, NAMES)
    numbers = neighbors.KNeighborsRegressor(4, **settings).fit(X, X[:, 0] * 2)

    model = ml.KNeighborsClassifier(4, **settings).fit(data(env, NAMES), y=1)
    found = dict((tuple(record[0]), kind) for record, kind in model.predict(asking).collect())
    chances = dict((tuple(record[0]), each) for record, each in model.predict_proba(asking).collect())
    regressor = ml.KNeighborsRegressor(4, **settings).fit(data(env, X[:, 0] * 2), y=1)
    means = dict((tuple(record[0]), mean) for record, mean in regressor.predict(asking).collect())

    rows = X[::6] + 0.01
    assert [found[tuple(row.tolist())] for row in rows] == right.predict(rows).tolist()
    np.testing.assert_allclose([chances[tuple(row.tolist())] for row in rows], right.predict_proba(rows), atol=1e-9)
    np.testing.assert_allclose([means[tuple(row.tolist())] for row in rows], numbers.predict(rows), rtol=1e-9)
    assert model.classes_.tolist() == ["a", "b", "c"]


@parallel
def test_neighbors_of_a_data_set(parallelism):
    env = ExecutionEnvironment.create_local_environment(parallelism)
    model = ml.NearestNeighbors(n_neighbors=3).fit(env.from_collection([row.tolist() for row in X]))

    pairs = model.kneighbors(env.from_collection([row.tolist() for row in X[:20]])).collect()

    distances, places = neighbors.NearestNeighbors(n_neighbors=3).fit(X).kneighbors(X[:20])
    found = {tuple(record): near for record, near in pairs}
    for row, far, at in zip(X[:20], distances, places, strict=True):
        near = found[tuple(row.tolist())]
        np.testing.assert_allclose([distance for distance, _ in near], far, rtol=1e-9, atol=1e-6)
        np.testing.assert_array_equal([neighbor for _, neighbor in near], X[at])


@pytest.mark.parametrize("made", [np.array, sparse.csr_matrix])
def test_distances_have_no_rounding_error_of_their_squares(made):
    rows = np.array([[1e8 + at, 1.0] for at in (3, 2, 1, 0, 9)])
    kernel = {"metric": "minkowski", "p": 2, "metric_params": None, "algorithm": "brute"}
    block = FeatureBlock(made(rows), None)

    _, (distances, places, _, _) = ours.SearchBlock(kernel, 3, False)(("asking", [], made(rows[3:4])), (100, block))

    assert distances.tolist() == [[0.0, 1.0, 2.0]]
    assert places.tolist() == [[103, 102, 101]]


def test_rows_are_gathered_where_one_model_is_needed(tmp_path):
    env = ExecutionEnvironment.create_local_environment(2)
    right = neighbors.KNeighborsClassifier(3).fit(X, NAMES).predict(X).tolist()

    def fitted():
        return ml.KNeighborsClassifier(3).fit(data(env, NAMES), y=1)

    assert fitted().predict(X).tolist() == right
    ml.save(fitted(), tmp_path / "model")
    assert ml.load(tmp_path / "model").predict(X).tolist() == right
    stream = fitted().predict(local([(row.tolist(), "?") for row in X[:9]]))
    assert [kind for _, kind in SimulatedJob(stream).run()] == right[:9]
    elsewhere = ExecutionEnvironment.create_local_environment(3)
    assert sorted(kind for _, kind in fitted().predict(data(elsewhere, NAMES)).collect()) == sorted(right)
    assert fitted().score(data(env, NAMES), y=1) == pytest.approx(np.mean(np.array(right) == NAMES))


def test_mistakes_are_told():
    env = ExecutionEnvironment.create_local_environment(2)
    rows = env.from_collection([(row.tolist(), 1) for row in X[:4]])
    with pytest.raises(InvalidProgram, match="5 neighbours are requested, but there are 4 rows"):
        ml.KNeighborsClassifier(5).fit(rows, y=1).predict(rows)
    with pytest.raises(InvalidProgram, match="fitted to one"):
        ml.NearestNeighbors().fit(X).kneighbors(rows)
    with pytest.raises(InvalidProgram, match="kneighbors"):
        ml.NearestNeighbors().fit(env.from_collection([[1.0]]))._maker("predict")


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(1, 4), st.integers(1, 6))
@settings(deadline=None, max_examples=100)
def test_the_best_of_parts_are_the_best_of_all(values, k, parts):
    distances, places = np.array([values], dtype=float), np.arange(len(values))[None, :]
    cut = [(distances[:, at::parts], places[:, at::parts], None, None) for at in range(min(parts, len(values)))]
    found = cut[0]
    for other in cut[1:]:
        found = ours.best(found, other, k)
    found = ours.best(found, (distances[:, :0], places[:, :0], None, None), k)
    right = sorted(zip(values, range(len(values)), strict=True))[:k]

    assert list(zip(found[0][0].tolist(), found[1][0].tolist(), strict=True)) == right

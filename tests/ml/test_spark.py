"""Estimators on Spark: frames and data sets give what scikit-learn gives for arrays, also when a worker is killed amid a fit."""

import os
import signal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn import cluster, datasets, linear_model, preprocessing

from funken import Configuration, StreamExecutionEnvironment, ml
from funken.dataset import ExecutionEnvironment
from funken.ml.data import FieldLayout, ParquetBlocks, files_of
from funken.testing import SimulatedJob, local

pytestmark = pytest.mark.spark

X, y = datasets.load_breast_cancer(return_X_y=True)
X = preprocessing.StandardScaler().fit_transform(X[:, :6])
NAMES = [f"f{n}" for n in range(6)]


def environment(**options):
    chosen = {"execution.target": "batch", "parallelism.default": 2} | options
    return ExecutionEnvironment.get_execution_environment(Configuration(chosen))


@pytest.fixture(scope="module")
def spark():
    """Return the session that Funken's own jobs run in."""
    from pyspark.sql import SparkSession

    environment().from_elements(1).count()
    return SparkSession.active()


def test_tasks_of_a_frame_are_as_many_as_cores(spark):
    assert ExecutionEnvironment.get_execution_environment(spark=spark).get_parallelism() == os.cpu_count()


@pytest.fixture(scope="module")
def read(spark, tmp_path_factory):
    """Return what makes a frame of columns: of a file, since a frame of rows would take as many workers as there are slots."""

    def made(columns):
        path = tmp_path_factory.mktemp("frames") / "rows.parquet"
        parquet.write_table(pa.table(columns), path, row_group_size=200)
        return spark.read.parquet(str(path))

    return made


@pytest.fixture(scope="module")
def frame(read):
    """Return the cells as a frame with a column per feature."""
    return read(dict(zip(NAMES, X.T, strict=True)) | {"kind": y})


def test_a_frame_is_fitted_as_arrays_are(frame):
    centers = X[[0, 25]]
    ours = ml.LogisticRegression(C=0.5).fit(frame, y="kind")
    theirs = linear_model.LogisticRegression(C=0.5, tol=1e-9, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5 * np.abs(theirs.coef_).max())
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    assert ours.classes_.tolist() == [0, 1]
    assert ours.fields_ == tuple(NAMES)

    found = ml.KMeans(2, init=centers, n_init=1).fit(frame, features=NAMES)
    right = cluster.KMeans(2, init=centers, n_init=1, algorithm="lloyd").fit(X)
    np.testing.assert_allclose(found.cluster_centers_, right.cluster_centers_, atol=1e-9)
    ridge = ml.Ridge(2.0).fit(frame, y="kind")
    np.testing.assert_allclose(ridge.coef_, linear_model.Ridge(2.0).fit(X, y).coef_, atol=1e-8)


def test_a_frame_gets_a_column(frame):
    model = ml.make_pipeline(ml.StandardScaler(), ml.LogisticRegression()).fit(frame, y="kind")

    rows = model.predict(frame).collect()

    assert len(rows) == len(X)
    features = [[row[name] for name in NAMES] for row in rows]
    assert [row.prediction for row in rows] == model.predict(features).tolist()
    assert np.mean([row.prediction == row.kind for row in rows]) > 0.9
    scaled = ml.StandardScaler().fit(frame, features=NAMES).transform(frame).collect()
    assert np.abs(np.mean([row.features_out for row in scaled], axis=0)).max() < 1e-9


def test_a_frame_that_only_reads_files_is_not_written_again(spark, read, frame, tmp_path):
    from pyspark.sql import functions as F

    plain = files_of(frame)
    assert len(plain) == 1 and plain == files_of(frame.select("f1", "kind"))
    assert ParquetBlocks.of(frame, FieldLayout(label="kind")).paths == plain
    spaced = read({"a b": [1.0], "c": ["x"]}).select(F.col("a b"))
    assert [os.path.exists(path) for path in files_of(spaced)] == [True]

    frame.write.partitionBy("kind").parquet(str(tmp_path / "by kind"))
    spark.read.parquet(str(tmp_path / "by kind")).createOrReplaceTempView("cells")
    others = {
        "a filter": frame.filter("f1 > 0"),
        "a computed column": frame.select((F.col("f1") * 2).alias("f1")),
        "another name": frame.select(F.col("f1").alias("g")),
        "a conversion": frame.select(F.col("kind").cast("double").alias("kind")),
        "a limit": frame.limit(10),
        "a union": frame.union(frame),
        "a column that is in no file": spark.table("cells").select("f1", "kind"),
        "another type than that of the file": spark.read.schema("kind int").parquet(plain[0]),
        "rows of Python": spark.range(3),
    }
    for name, other in others.items():
        assert files_of(other) == [], name
    cached = frame.select("f1").cache()
    assert cached.count() == len(X) and files_of(cached) == []
    cached.unpersist()
    for name in ("a filter", "a computed column", "a column that is in no file"):
        expected = np.mean([row.f1 for row in others[name].collect()])
        assert ml.StandardScaler().fit(others[name], features=["f1"]).mean_ == pytest.approx(expected)


def test_missing_numbers_of_a_frame_are_nan(read):
    frame = read({"a": [1.0, None, 3.0], "b": [4, 6, None]})

    assert ml.SimpleImputer().fit(frame).statistics_.tolist() == [2.0, 5.0]


def test_ratings_are_factorised_as_in_one_process(read):
    chance = np.random.default_rng(1)
    ratings = [(int(n % 17), int(n * 7 % 11), float(chance.random())) for n in range(120)]
    frame = read(dict(zip(("user", "item", "rating"), zip(*ratings, strict=True), strict=True)))

    found = ml.ALS(3, max_iter=4, random_state=2).fit(frame, features=["user", "item", "rating"])

    right = ml.ALS(3, max_iter=4, random_state=2).fit(ratings)
    np.testing.assert_allclose(found.user_factors_, right.user_factors_, atol=1e-9)
    np.testing.assert_allclose(found.item_factors_, right.item_factors_, atol=1e-9)


def test_a_fit_survives_a_worker_that_is_killed_in_a_pass(tmp_path):
    from funken.ml.data import BlockSet, FeatureBlock
    from funken.ml.training.linear import solve
    from funken.ml.training.neighbors import Lloyd

    class Killed(Lloyd):
        def local(self, state, block, place):
            marker = tmp_path / "killed"
            if state.n_iter == 4 and place[0] == 1 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if marker.exists():
                (tmp_path / f"again {state.n_iter}").touch()
            return super().local(state, block, place)

    options = {
        "execution.checkpointing.interval": "1 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": 0,
    }
    points = np.random.default_rng(3).normal(size=(400, 2))
    parts = [FeatureBlock(points[at : at + 50]) for at in range(0, 400, 50)]

    def fitted(env, solver):
        return solve(BlockSet(env.from_collection(parts).rebalance()), solver(3, points[:3], 0.0, 9, 0))

    env = environment(**options)
    found = fitted(env, Killed)

    right = fitted(ExecutionEnvironment.create_local_environment(parallelism=2), Lloyd)
    np.testing.assert_allclose(found.centers, right.centers, atol=1e-12)
    assert env.get_last_job_execution_result().restarts == 1
    assert min(int(file.name.split()[1]) for file in tmp_path.glob("again *")) > 1, "it began anew"


def test_versions_learned_on_spark_are_those_of_one_process():
    points = [tuple(map(float, row)) for row in X[:64]]
    learner = ml.OnlineKMeans(2, decay=0.9, init=X[[0, 25]], batch_size=8)
    configuration = Configuration({"execution.target": "batch"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)

    with learner.learn(env.from_collection(points)).execute_and_collect() as results:
        found = {version.version: version.model.centers for version in results}

    right = SimulatedJob(learner.learn(local(points))).run()
    assert sorted(found) == [version.version for version in right] == list(range(1, 9))
    for version in right:
        np.testing.assert_allclose(found[version.version], version.model.centers)

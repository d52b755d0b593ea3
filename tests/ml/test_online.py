"""Online learning: Flink's numbers, river's models in one process, and jobs that fail amid it."""

import copy
import logging

import numpy as np
import pytest
from river import anomaly, drift, linear_model, metrics, optim, preprocessing
from sklearn.datasets import load_breast_cancer

from funken import DataGeneratorSource, InvalidProgram, WatermarkStrategy
from funken.ml import DriftDetector, OnlineKMeans, OnlineLogisticRegression, OnlineStandardScaler, RiverLearner
from funken.ml.online import KMeansKernel
from funken.testing import SimulatedJob, local
from tests.support.simulation.run import Simulation
from tests.support.simulation.scenarios import PROGRAMS

A = [(10, 0), (10, 0.3), (10.3, 0), (-10, 0), (-10, 0.6), (-10.6, 0)]
B = [(10, 100), (10, 100.3), (10.3, 100), (-10, -100), (-10, -100.6), (-10.6, -100)]


@pytest.mark.parametrize(
    ("decay", "centers", "weight"),
    [
        (0.0, [(10.1, 100.1), (-10.2, -100.2)], 3),
        (0.5, [(10.1, 66.7666667), (-10.2, -66.7333333)], 4.5),
        (1.0, [(10.1, 50.1), (-10.2, -50.0)], 6),
    ],
)
def test_k_means_gives_the_numbers_of_flink(decay, centers, weight):
    learner = OnlineKMeans(2, decay=decay, init=[(1, 0), (-1, 0)], batch_size=6)
    first, second = SimulatedJob(learner.learn(local(A + B))).run()

    np.testing.assert_allclose(first.model.centers, [(10.1, 0.1), (-10.2, 0.2)])
    np.testing.assert_allclose(second.model.centers, centers)
    assert second.model.weights.tolist() == [weight, weight]


T1 = [((x / 10, 2), 0) for x in range(1, 6)] + [
    ((11, 12), 1),
    ((12, 11), 1),
    ((13, 12), 1),
    ((14, 12), 1),
    ((15, 12), 1),
]
T2 = [((0.2, 3), 0), ((0.8, 1), 0), ((0.7, 1), 0), ((0.6, 2), 0), ((0.2, 2), 0)]
T2 += [((14, 17), 1), ((15, 10), 1), ((16, 16), 1), ((17, 10), 1), ((18, 13), 1)]


@pytest.mark.parametrize(
    ("given", "first", "second"),
    [
        (
            {"alpha": 0.5, "init": (0.2, 0.3)},
            (-0.1378544540, -0.1731864025),
            (0.3557855977, 0.3162067661),
        ),
        ({"reg": 0.1, "elastic_net": 0.5}, (0.0952743902, 0.0939334638), (0.1058440515, 0.0892364472)),
    ],
)
def test_logistic_regression_gives_the_numbers_of_flink(given, first, second):
    learner = OnlineLogisticRegression(batch_size=10, label=1, **given)
    versions = SimulatedJob(learner.learn(local(T1 + T2))).run()

    assert [(version, records) for version, records, _ in versions] == [(1, 10), (2, 20)]
    np.testing.assert_allclose(versions[0].model.coef, first, atol=1e-9)
    np.testing.assert_allclose(versions[1].model.coef, second, atol=1e-9)


def test_the_scaler_gives_the_numbers_of_flink():
    rows = [
        (-2.5, 9, 1),
        (1.4, -5, 1),
        (2, -1, -2),
        (0.7, 3, 1),
        (0, 1, 1),
        (0.5, 0, -2),
        (0.4, 1, 1),
        (0.3, 2, 1),
        (0.5, 1, -2),
    ]
    versions = SimulatedJob(OnlineStandardScaler(batch_size=3).learn(local(rows))).run()

    np.testing.assert_allclose(versions[0].model.std, (2.4433583, 7.2111026, 1.7320508), atol=1e-6)
    np.testing.assert_allclose(versions[2].model.mean, (0.3666667, 1.2222222, 0), atol=1e-6)
    np.testing.assert_allclose(versions[2].model.std, (1.2369316, 3.7006005, 1.5), atol=1e-6)


def records():
    X, y = load_breast_cancer(return_X_y=True)
    return [
        {**{f"x{n}": float(v) for n, v in enumerate(row[:8])}, "y": bool(label)}
        for row, label in zip(X, y, strict=True)
    ]


def split(record):
    return {name: value for name, value in record.items() if name != "y"}, record["y"]


def test_a_model_of_river_is_what_it_is_in_one_process():
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.FTRLProximal(alpha=0.1))
    expected, metric = copy.deepcopy(model), metrics.Accuracy()
    course = []
    for place, record in enumerate(records(), 1):
        x, y = split(record)
        metric.update(y, expected.predict_one(x))
        expected.learn_one(x, y)
        if place % 100 == 0 or place == 569:
            course.append((place, metric.get()))
    learner = RiverLearner(model, label="y")

    assert SimulatedJob(learner.evaluate(local(records()), metrics.Accuracy())).run() == course
    *_, last = SimulatedJob(learner.learn(local(records()), every=500)).run()
    assert last.records == 569
    found = last.model.model["LogisticRegression"].weights
    assert found == expected["LogisticRegression"].weights
    assert course[-1][1] > 0.9


def test_anomaly_scores_are_those_of_river():
    numbers = [{"x": (n * 37 % 100) / 100 if n % 50 else 5.0} for n in range(400)]
    model = anomaly.HalfSpaceTrees(n_trees=5, height=4, window_size=50, seed=3, limits={"x": (0, 5)})
    expected = []
    one = copy.deepcopy(model)
    for x in numbers:
        expected.append(one.score_one(x))
        one.learn_one(x)
    stream = local(numbers).key_by(lambda x: "all")
    found = SimulatedJob(RiverLearner(model).predict_and_learn(stream)).run()

    assert [prediction for _, prediction, _ in found] == expected


def test_drift_is_seen_for_each_key():
    values = [("a", float(n % 2)) for n in range(600)] + [("b", float(n >= 300)) for n in range(600)]
    expected = []
    detector = drift.ADWIN()
    for count, (_, value) in enumerate(values[600:], 1):
        detector.update(value)
        if detector.drift_detected:
            expected.append(("b", count))
    stream = local(values).key_by(lambda pair: pair[0])
    found = SimulatedJob(DriftDetector(drift.ADWIN(), value=1).detect(stream)).run()

    assert expected
    assert [(key, count) for key, _, count in found] == expected


def test_records_before_the_first_version_wait_for_it():
    learner = OnlineKMeans(2, init=[(1, 0), (-1, 0)], batch_size=6)
    points = local(A)
    found = SimulatedJob(learner.predict(points, learner.learn(points))).run()

    assert sorted((record, place) for record, place, _ in found) == sorted((p, int(p[0] < 0)) for p in A)
    assert {version for _, _, version in found} == {1}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: OnlineKMeans(2, batch_size=0).learn(local(A)),
        lambda: OnlineKMeans(3, init=[(1, 0)]).learn(local(A)),
        lambda: OnlineLogisticRegression(alpha=0).learn(local(T1)),
        lambda: RiverLearner("no model").learn(local(A)),
        lambda: DriftDetector("none"),
        lambda: RiverLearner(linear_model.LinearRegression()).evaluate(local(A), metrics.MAE()),
    ],
)
def test_a_wrong_parameter_is_refused_before_the_job(wrong):
    with pytest.raises(InvalidProgram):
        wrong()


# ---- faults


def point(n):
    return (float(n * 7919 % 13), float(n * 31 % 7))


def learner():
    return OnlineKMeans(3, decay=0.9, init=[(0, 0), (6, 3), (12, 6)], batch_size=4)


def right(prediction):
    """Whether a prediction is that of the version it names, computed anew from the numbers that version has learned."""
    kernel: KMeansKernel = learner().start()
    for batch in range(prediction.version):
        kernel.learn([point(n) for n in range(batch * 4, batch * 4 + 4)])
    return prediction.record, kernel.predict([prediction.record]) == [prediction.prediction]


def learning(env, count, wide):
    """Versions of a model, and predictions with them: which version predicts depends on the schedule, what it predicts not."""
    source = DataGeneratorSource(point, count)
    points = env.from_source(source, WatermarkStrategy.no_watermarks(), "points").set_parallelism(1).uid("points")
    versions = learner().learn(points).uid("learn")
    other = env.from_source(
        DataGeneratorSource(lambda n: point(n + 5), count), WatermarkStrategy.no_watermarks(), "other"
    )
    found = (
        learner().predict(other.set_parallelism(wide()).uid("other"), versions).set_parallelism(wide()).uid("predict")
    )
    keyed = learner().predict_and_learn(points.key_by(lambda p: p[1])).set_parallelism(wide()).uid("keyed")
    return [
        versions.map(lambda v: (v.version, v.records, tuple(v.model.centers.ravel().tolist()))),
        found.map(right).set_parallelism(wide()),
        keyed.map(tuple).set_parallelism(wide()),
    ]


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setitem(PROGRAMS, "learning", learning)
    logging.disable(logging.WARNING)
    yield "learning"
    logging.disable(logging.NOTSET)


def test_models_and_predictions_survive_crashes_and_rescaling(program):
    conditions = {"interval": 20, "timeout": 600_000, "tolerable": 1, "task_crashes": 4, "driver_crashes": 2}
    conditions |= {"storage_faults": 0.01, "lost_acks": 0.0, "commit_faults": 0.0, "records": 80, "calm_after": 2000}
    run = Simulation(7, program=program, rescales=True, exactly_once=True, **conditions).run()

    assert run.violation == ""
    assert min(run.attempts, run.checkpoints) > 1


@pytest.mark.simulation
def test_every_version_comes_once_whatever_fails(program):
    violations = {
        seed: Simulation(seed, program=program, exactly_once=True, records=60).run().violation for seed in range(12)
    }
    assert {seed: found for seed, found in violations.items() if found} == {}

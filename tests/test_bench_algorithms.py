"""The benches of graphs and learning: right answers are taken, wrong ones refused, and a system that ends early is told of."""

import importlib.util
import json
import sys
import time
from argparse import Namespace
from pathlib import Path

import networkx
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

BENCH = Path(__file__).parents[1] / "benchmarks"


def load(name, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH / "compare"))
    spec = importlib.util.spec_from_file_location(f"bench_{name.replace('/', '_')}", BENCH / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def graph(monkeypatch, tmp_path):
    """Return the module of the workload, and the path of a small graph."""
    workload = load("graph/workload", monkeypatch)
    path = tmp_path / "edges.parquet"
    size = workload.write_graph(3000, path)
    assert size["edges"] > 2000
    return workload, str(path)


def test_the_oracle_of_graphs_is_networkx(graph):
    workload, path = graph
    source, target, weight = (array.tolist() for array in workload.read_graph(path))
    peer = networkx.DiGraph()
    peer.add_weighted_edges_from(zip(source, target, weight, strict=True))
    assert min(degree for _, degree in peer.out_degree()) > 0
    oracle = workload.Oracle(path)

    ranks = networkx.pagerank(peer, 0.85, max_iter=1000, tol=1e-15, weight=None)
    np.testing.assert_allclose(oracle.answer("pagerank-converged"), [ranks[v] for v in oracle.ids], rtol=1e-9)
    assert np.abs(oracle.answer("pagerank") - oracle.answer("pagerank-converged")).max() > 0
    least = {v: min(each) for each in networkx.weakly_connected_components(peer) for v in each}
    assert oracle.answer("components").tolist() == [least[v] for v in oracle.ids.tolist()]
    lengths = networkx.single_source_dijkstra_path_length(peer, 0)
    assert oracle.answer("sssp").tolist() == [lengths.get(v, float("inf")) for v in oracle.ids.tolist()]
    assert oracle.answer("triangles").tolist() == [sum(networkx.triangles(peer.to_undirected()).values()) // 3]


@pytest.mark.parametrize("algorithm", ["pagerank", "components", "sssp", "triangles"])
def test_an_answer_of_a_graph_is_taken_only_if_it_is_right(graph, tmp_path, algorithm):
    workload, path = graph
    oracle = workload.Oracle(path)
    ids = np.zeros(1, np.int64) if algorithm == "triangles" else oracle.ids
    right = oracle.answer(algorithm)

    def checked(ids, values):
        workload.write_answer(str(tmp_path), algorithm, (ids, values))
        workload.check(workload.read_answer(str(tmp_path), algorithm), oracle, algorithm, 1e-9)

    checked(ids[::-1], right[::-1])
    worse = right.copy()
    worse[-1] = 0.5 if worse[-1] in (np.inf, 0) else worse[-1] * 1.001
    for wrong in ((ids, worse), (ids + 1, right), (ids[:0], right[:0])):
        with pytest.raises(workload.WrongAnswer):
            checked(*wrong)


def test_a_model_is_taken_only_if_it_is_as_good_as_the_best(monkeypatch, tmp_path):
    workload = load("ml/workload", monkeypatch)
    points, ratings = str(tmp_path / "points"), str(tmp_path / "ratings")
    workload.write_points(5000, Path(points))
    workload.write_ratings(8000, Path(ratings))
    X, y = workload.read_points(points)

    def figure(judge, algorithm, **learned):
        workload.write_answer(str(tmp_path), algorithm, **learned)
        return judge.figure(str(tmp_path), algorithm)[1]

    model = LogisticRegression(C=workload.C, tol=1e-8).fit(X, y)
    judge = workload.Judge(points, ratings)
    loss = figure(judge, "logistic", coef=model.coef_, intercept=model.intercept_)
    assert loss < np.log(2)
    with pytest.raises(workload.WrongAnswer, match="another system has"):
        figure(judge, "logistic", coef=model.coef_ * 1.2, intercept=model.intercept_)
    with pytest.raises(workload.WrongAnswer, match="not the least"):
        figure(workload.Judge(points, ratings), "logistic", coef=model.coef_ * 1.2, intercept=model.intercept_)

    centers = KMeans(workload.CLUSTERS, n_init=3, random_state=1).fit(X).cluster_centers_
    passes = workload.PASSES
    assert 0.5 * workload.FEATURES < figure(judge, "kmeans", centers=centers, passes=passes) < 1.3 * workload.FEATURES
    with pytest.raises(workload.WrongAnswer, match="mean squared distance"):
        figure(judge, "kmeans", centers=centers[:2], passes=passes)
    with pytest.raises(workload.WrongAnswer, match="19 iterations"):
        figure(judge, "kmeans", centers=centers, passes=19)
    with pytest.raises(workload.WrongAnswer, match="noise"):
        figure(judge, "als", users=np.ones((200, 2)), items=np.ones((20, 2)))
    assert workload.dense([2, 0], [[1], [2]]).tolist() == [[2], [0], [1]]


def test_a_system_that_ends_early_is_told_of_and_nothing_of_it_is_left(monkeypatch, tmp_path):
    sessions = load("compare/sessions", monkeypatch)
    script = "import sys, time; print('{\"n\": 1}', flush=True); time.sleep(0.7); sys.exit('broken')"
    run = sessions.run([sys.executable, "-c", script], str(tmp_path), 2, 60)

    first = next(run)
    assert first["n"] == 1 and first["memory"] > 1_000_000
    with pytest.raises(sessions.SystemFailed, match=r"1 of 2 answers(.|\n)*broken"):
        next(run)
    slow = sessions.run([sys.executable, "-c", "import time; time.sleep(600)"], str(tmp_path), 1, 1)
    with pytest.raises(sessions.SystemFailed, match="no answer within 1 s"):
        list(slow)


SYSTEM = """
import json, sys, time
for name in sys.argv[1:]:
    sys.stdin.readline()
    began = time.monotonic()
    if name == "late":
        time.sleep(600)
    if name == "broken":
        sys.exit("out of memory")
    print(json.dumps({"algorithm": name, "seconds": 2.0, "began": began}), flush=True)
"""


def test_an_algorithm_that_fails_leaves_the_others_and_their_figures(monkeypatch, tmp_path):
    sessions, cases = load("compare/sessions", monkeypatch), load("compare/cases", monkeypatch)
    monkeypatch.setitem(sys.modules, "sessions", sessions)
    monkeypatch.setattr(cases, "sessions", sessions)
    judged, file = {}, tmp_path / "some.json"

    def start(system, folder, asked, seconds):
        return sessions.run([sys.executable, "-c", SYSTEM, *asked], folder, len(asked), seconds)

    def judge(system, folder, line):
        if line["algorithm"] == "wrong":
            raise sessions.WrongAnswer("5, but 4 is right")
        time.sleep(0.3)
        judged[line["algorithm"]] = line["began"], time.monotonic()
        return "right", {"figures": ("loss", 0.5)}

    arguments = Namespace(rounds=2, seconds=3.0)
    bench = cases.Bench({"a": "A"}, start, judge)
    names = ["first", "late", "second", "broken", "wrong", "third"]
    document = cases.Document(file, 100, {"parallelism": 2})
    document.figures("a")["rounds"] = 1  # as older benches wrote it
    document.put("a", "late", seconds=1.0)

    assert not bench.measure("a", names, arguments, document)

    found = json.loads(file.read_text())["100"]["systems"]["a"]
    assert found["seconds"] == {"first": 2.0, "second": 2.0, "third": 2.0}
    assert found["rounds"] == {"first": 2, "second": 2, "third": 2}
    late, broken = "no answer within 3 s", "1 of 5 answers: out of memory"
    assert found["failed"] == {"late": late, "broken": broken, "wrong": "5, but 4 is right"}
    assert judged["third"][0] > judged["second"][1], "an algorithm began before the answer of the one before was judged"
    assert bench.measure("a", ["second"], arguments, document)

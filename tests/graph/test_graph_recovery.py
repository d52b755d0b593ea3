"""The library's algorithms on Spark, where a worker is killed in a superstep."""

import os
import signal

import numpy as np
import pytest

from funken import Configuration
from funken.dataset import ExecutionEnvironment
from funken.graph import ConnectedComponents, Graph
from tests.dataset.programs import environment

pytestmark = pytest.mark.spark

SOURCE = np.arange(60)


def path(env):
    """Return a path, which takes a superstep per edge, and a vertex of its own."""
    return Graph.from_collection(env, [(n, n + 1, None) for n in SOURCE.tolist()] + [(99, 99, None)], lambda n: n)


def test_components_survive_a_worker_that_is_killed_in_a_superstep(tmp_path):
    from funken.graph.columns.propagation import LeastValue
    from funken.graph.columns.supersteps import run_program

    class Killed(LeastValue):
        def step(self, part, state, messages, view):
            marker = tmp_path / "killed"
            if part.part == 1 and view.number == 12 and not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if marker.exists():
                (tmp_path / f"again {view.number}").touch()
            return super().step(part, state, messages, view)

    configuration = Configuration(
        {
            "parallelism.default": 2,
            "execution.checkpointing.interval": 1,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": 0,
        }
    )
    env = ExecutionEnvironment.get_execution_environment(configuration)

    found = run_program(path(env), Killed(), 100, "components").collect()

    assert sorted(found) == [*((n, 0) for n in range(61)), (99, 99)]
    assert sorted(found) == sorted(path(environment(2)).run(ConnectedComponents(99)).collect())
    assert env.get_last_job_execution_result().restarts == 1
    again = sorted(int(file.name.split()[1]) for file in tmp_path.glob("again *"))
    assert again[0] > 1, "the second attempt began with the first superstep"

"""How many records each operator of a chain has read and emitted, however the chain runs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import Configuration, JobClient, OutputTag, ProcessFunction, StreamExecutionEnvironment
from funken.runtime.driver.local_runner import LocalRunner

ODD = OutputTag("odd")


def environment(vectorized=False, parallelism=2):
    conf = {"execution.target": "local", "pipeline.vectorized": str(vectorized), "parallelism.default": parallelism}
    return StreamExecutionEnvironment.get_execution_environment(Configuration(conf))


def counts(env):
    """Run the program; return records in and out of each operator by its name, over all subtasks."""
    client = JobClient(env.job("counted"), LocalRunner())
    client.run()
    job = client.snapshot()
    found = {}
    for info, vertex in zip(job.graph.vertices, job.vertices, strict=True):
        for operator in info.operators:
            parts = [subtask.metrics.operators[operator.id] for subtask in vertex.subtasks]
            found[operator.name] = tuple(
                None if None in values else sum(values)
                for values in zip(*((each.records_in, each.records_out) for each in parts), strict=True)
            )
        # the vertex says the same of its ends
        assert found[info.operators[0].name][0] == sum(each.metrics.records_in for each in vertex.subtasks)
    return found


@pytest.mark.parametrize("vectorized", [False, True])
def test_every_operator_of_a_job_is_counted(vectorized):
    env = environment(vectorized)
    numbers = env.from_collection(range(1000)).name("numbers").map(lambda n: n + 1).name("next")
    kept = numbers.filter(lambda n: n % 4 == 0).name("quarter").map(lambda n: (n % 7, n)).name("pair")
    sums = kept.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).name("sums")
    sums.map(lambda pair: pair[1]).name("sum").for_each(lambda n: None).name("end")
    assert counts(env) == {
        "numbers": (1000, 1000), "next": (1000, 1000), "quarter": (1000, 250), "pair": (250, 250), "sums": (250, 250),
        "sum": (250, 250), "end": (250, 0),
    }  # fmt: skip


class ByParity(ProcessFunction):
    def process_element(self, value, ctx):
        if value % 2:
            yield ODD, value
        else:
            yield value
            yield value


def test_a_record_that_goes_to_several_readers_is_emitted_once_and_side_outputs_count():
    env = environment(parallelism=1)
    split = env.from_collection(range(10)).name("numbers").process(ByParity()).name("split")
    for name in ("one", "two"):
        split.map(lambda n: n).name(name).for_each(lambda n: None).name(f"end {name}")
    split.get_side_output(ODD).map(lambda n: n).name("odd").for_each(lambda n: None).name("end odd")
    found = counts(env)
    assert found["split"] == (10, 15)
    assert found["one"] == found["two"] == (10, 10) and found["odd"] == (5, 5)


def test_the_last_operator_of_a_chain_with_two_exchanges_emits_each_record_once():
    env = environment(parallelism=2)
    numbers = env.from_collection(range(10)).name("numbers").map(lambda n: n).name("same")
    for name in ("one", "two"):
        numbers.rebalance().for_each(lambda n: None).name(name)
    assert counts(env) == {"numbers": (10, 10), "same": (10, 10), "one": (10, 0), "two": (10, 0)}


def test_between_two_filters_of_one_loop_nothing_is_counted():
    env = environment(parallelism=1)
    numbers = env.from_collection(range(12)).name("numbers").map(lambda n: n).name("same")
    halves = numbers.filter(lambda n: n % 2 == 0).name("even").map(lambda n: n).name("between")
    halves.filter(lambda n: n % 3 == 0).name("sixth").map(str).name("text").for_each(lambda n: None).name("end")
    assert counts(env) == {
        "numbers": (12, 12), "same": (12, 12), "even": (12, None), "between": (None, None), "sixth": (None, 2),
        "text": (2, 2), "end": (2, 0),
    }  # fmt: skip


STEPS = {
    "map": (lambda stream: stream.map(lambda n: n + 1), lambda values: [n + 1 for n in values]),
    "filter": (lambda stream: stream.filter(lambda n: n % 3 != 0), lambda values: [n for n in values if n % 3]),
    "flat_map": (
        lambda stream: stream.flat_map(lambda n: [n] * (n % 3)),
        lambda values: [n for n in values for _ in range(n % 3)],
    ),
    "rebalance": (lambda stream: stream.rebalance().map(lambda n: n), list),
    "keyed": (lambda stream: stream.key_by(lambda n: n % 5).map(lambda n: n), list),
}


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=7), st.booleans())
@settings(max_examples=25, deadline=None)
def test_whatever_is_counted_of_any_chain_is_right(steps, vectorized):
    env = environment(vectorized, parallelism=1)
    stream, values, expected = env.from_collection(range(60)).name("numbers"), list(range(60)), {}
    for place, step in enumerate(steps):
        build, does = STEPS[step]
        before, values = len(values), does(values)
        stream = build(stream).name(f"{place}")
        expected[f"{place}"] = (before, len(values))
    stream.for_each(lambda n: None).name("end")
    found = counts(env)
    for name, pair in expected.items():
        assert all(known in (None, right) for known, right in zip(found[name], pair, strict=True)), (name, found)
    assert found["end"][0] == len(values)

"""Loops as a program writes them: how they are closed, what is refused, and what comes out."""

from collections import Counter

import pytest

from funken import DataStream, InvalidProgram, RuntimeExecutionMode, StreamExecutionEnvironment
from funken.io.spill import SpillSpace
from funken.testing import local
from tests.support.streams import collected


def environment(parallelism=1, **options):
    env = StreamExecutionEnvironment.create_local_environment(parallelism)
    for key, value in options.items():
        env.get_configuration().set(key.replace("_", "."), value)
    return env


def collatz_steps(number):
    steps = 0
    while number != 1:
        number, steps = number // 2 if number % 2 == 0 else 3 * number + 1, steps + 1
    return steps


def one_step(record):
    origin, number, steps = record
    return origin, number // 2 if number % 2 == 0 else 3 * number + 1, steps + 1


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("closed", ["as it is", "rebalanced", "keyed"])
def test_records_go_round_until_they_come_out(parallelism, closed):
    env = environment(parallelism)
    numbers = env.from_collection([(n, n, 0) for n in range(2, 200)])

    def step(loop):
        if closed == "keyed":
            loop = loop.key_by(lambda record: record[0] % 7)
        stepped = loop.map(one_step)
        back = stepped.filter(lambda record: record[1] != 1)
        back = {"as it is": back, "rebalanced": back.rebalance(), "keyed": back.key_by(lambda record: record[1])}[
            closed
        ]
        return back, stepped.filter(lambda record: record[1] == 1)

    found = {origin: steps for origin, _, steps in collected(numbers.iterate(step))}
    assert found == {n: collatz_steps(n) for n in range(2, 200)}


def test_the_two_ways_to_write_a_loop_are_one():
    def by_hand(stream):
        loop = stream.iterate()
        less = loop.map(lambda n: n - 1)
        returned = loop.close_with(less.filter(lambda n: n > 0))
        assert isinstance(returned, DataStream)
        return less.filter(lambda n: n <= 0)

    def step(loop):
        less = loop.map(lambda n: n - 1)
        return less.filter(lambda n: n > 0), less.filter(lambda n: n <= 0)

    assert collected(by_hand(local([3, 5]))) == collected(local([3, 5]).iterate(step)) == [0, 0]


def test_a_loop_may_have_several_ways_back_by_a_union():
    loop = local([12]).iterate()
    twos = loop.filter(lambda n: n % 2 == 0).map(lambda n: n // 2)
    threes = loop.filter(lambda n: n % 2 and n % 3 == 0).map(lambda n: n // 3)
    loop.close_with(twos.union(threes))
    assert collected(loop.filter(lambda n: n == 1)) == [1]


def test_a_side_output_may_go_back():
    from funken import OutputTag

    again = OutputTag("again")
    loop = local([5]).iterate()
    done = loop.process(lambda n, ctx: [(again, n - 1)] if n else ["done"])
    loop.close_with(done.get_side_output(again))
    assert collected(done) == ["done"]


def test_records_keep_their_timestamps_on_the_way_round():
    from funken import WatermarkStrategy

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 10)
    loop = local([3]).assign_timestamps_and_watermarks(strategy).iterate()
    less = loop.process(lambda n, ctx: [n - 1])
    loop.close_with(less.filter(lambda n: n > 0))
    assert collected(less.process(lambda n, ctx: [(n, ctx.timestamp())])) == [(2, 30), (1, 30), (0, 30)]


def test_a_loop_that_multiplies_spills_and_comes_to_its_end(monkeypatch):
    """20 records become 20,480 at a time: more than two tasks may keep in memory of what comes back."""
    spilled = []
    monkeypatch.setattr(SpillSpace, "count", lambda self, owner, size: spilled.append((owner, size)))
    env = environment(2, execution_memory_feedback="1 kb", execution_block_records=100)
    numbers = env.from_collection([(n, 10) for n in range(20)])

    def step(loop):
        doubled = loop.flat_map(lambda pair: [(2 * pair[0] + bit, pair[1] - 1) for bit in (0, 1)])
        return doubled.filter(lambda pair: pair[1]).rebalance(), doubled.filter(lambda pair: not pair[1])

    assert Counter(n for n, _ in collected(numbers.iterate(step))) == Counter(range(20 * 1024))
    assert {owner for owner, _ in spilled} == {"iterate"}
    assert sum(size for _, size in spilled) > 10_000


def test_the_plan_shows_the_way_back():
    loop = local([1]).iterate()
    loop.close_with(loop.key_by(abs).reduce(max).filter(lambda n: n < 1))
    env = loop.get_execution_environment()
    assert "-> [1] by FEEDBACK FORWARD" in env.explain()
    assert "iterate: not chained: is the head of a loop" in env.explain()
    assert "FEEDBACK FORWARD" in env.compile()._repr_html_()


# ---- what is refused


def test_a_loop_that_is_never_closed_is_refused_when_it_is_to_run():
    loop = local([1]).iterate()
    loop.map(abs).print()
    with pytest.raises(
        InvalidProgram, match=r"'iterate' begins a loop that was never closed: call close_with\(feedback\)"
    ):
        loop.get_execution_environment().execute()


def test_a_loop_is_closed_once():
    loop = local([1]).iterate()
    loop.close_with(loop.filter(lambda n: n > 1))
    with pytest.raises(InvalidProgram, match=r"is closed already.*union\(\) the streams"):
        loop.close_with(loop.filter(lambda n: n > 2))


def test_what_comes_back_comes_from_the_loop():
    stream = local([1])
    loop = stream.iterate()
    other = stream.map(abs)
    for wrong in (other, loop.map(abs).union(other), local([1])):
        with pytest.raises(InvalidProgram, match="does not come out of the loop of 'iterate'"):
            loop.close_with(wrong)
    with pytest.raises(InvalidProgram, match=r"takes the stream that is to enter the loop of 'iterate' again, not 5"):
        loop.close_with(5)


@pytest.mark.parametrize("returned", [None, 5, (1, 2), "streams"])
def test_a_step_returns_two_streams(returned):
    with pytest.raises(
        InvalidProgram, match="Return two streams: the stream that enters the loop again, and the result"
    ):
        local([1]).iterate(lambda loop: returned)


def test_there_is_no_time_to_wait_for_records():
    with pytest.raises(InvalidProgram, match=r"iterate\(5000\): a loop does not end after a time"):
        local([1]).iterate(5000)


def test_forward_back_needs_the_same_parallelism():
    loop = environment(2).from_collection([1]).rebalance().map(abs).iterate()
    loop.close_with(loop.map(abs).set_parallelism(3).forward())
    loop.print()
    with pytest.raises(InvalidProgram, match=r"closed by forward\(\) from 'map' \(parallelism 3\)"):
        loop.get_execution_environment().compile()


def test_copies_do_not_go_back():
    loop = environment(2).from_collection([1]).iterate()
    loop.close_with(loop.map(abs).broadcast())
    loop.print()
    with pytest.raises(InvalidProgram, match=r"closed by broadcast\(\).*broadcast\(\) in the loop"):
        loop.get_execution_environment().compile()


def closed_loop(env):
    loop = env.from_collection([3]).iterate()
    less = loop.map(lambda n: n - 1)
    loop.close_with(less.filter(lambda n: n > 0))
    return less


def test_a_loop_does_not_run_stage_by_stage():
    env = environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    with pytest.raises(
        InvalidProgram, match=r"execution.runtime-mode 'batch' cannot run the loop that operator 'iterate' begins"
    ):
        collected(closed_loop(env))
    env = StreamExecutionEnvironment.get_execution_environment()
    for target in ("batch", "micro-batch"):
        env.get_configuration().set("execution.target", target)
        with pytest.raises(
            InvalidProgram, match=f"execution.target {target!r} cannot run the loop.*'continuous' or 'local'"
        ):
            collected(closed_loop(env))


def test_an_automatic_program_with_a_loop_streams():
    env = environment().set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    assert collected(closed_loop(env).key_by(lambda n: 0).sum()) == [2, 3, 3]


def test_the_layer_for_pyflink_has_loops_too():
    from funken.compat.pyflink.environment import StreamExecutionEnvironment as PyFlinkEnvironment
    from funken.compat.pyflink.streams import DataStream as PyFlinkStream

    env = PyFlinkEnvironment.create_local_environment(1)
    loop = env.from_collection([3]).iterate()
    assert isinstance(loop, PyFlinkStream)
    less = loop.map(lambda n: n - 1)
    loop.close_with(less.filter(lambda n: n > 0))
    assert list(less.execute_and_collect()) == [2, 1, 0]

    def step(loop):
        assert isinstance(loop, PyFlinkStream)
        return loop.filter(lambda n: n > 5), loop.map(str)

    assert list(env.from_collection([3]).iterate(step).execute_and_collect()) == ["3"]

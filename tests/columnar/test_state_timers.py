"""Event-time timers of functions on columns: when they fire, in which order, and what goes to the functions themselves."""

import random
import traceback
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import joined
from funken.operators.stateful import arrays as due_timers
from funken.operators.stateful import blocks, logic
from funken.testing import OperatorHarness
from tests.columnar.state_operators import both, give, harness_of, in_rows, on_columns, returns
from tests.columnar.timed_functions import (
    Cancels,
    Divides,
    Earlier,
    Expected,
    InTime,
    Once,
    OnTheObject,
    Periodic,
    Silence,
    Told,
    Unheard,
)
from tests.support.traced.states import StateFuzzer


def by_key(harness: OperatorHarness) -> list[Any]:
    """Return what was given, that of each key in its order: keys are asked by turns where timers set others."""
    return sorted(harness.output_with_timestamps, key=lambda each: each[0][0])


def some_steps(seed: int = 1) -> list[Any]:
    dice, steps = random.Random(seed), list[Any]()
    for begin in range(0, 100, 20):
        steps += [[(dice.randrange(6), begin + dice.randrange(25), "") for _ in range(12)], begin + dice.randrange(20)]
    return [*steps, 200]


def test_a_silence_is_told_as_by_records() -> None:
    found, expected = both(Silence, *some_steps())

    assert found.output_with_timestamps == expected.output_with_timestamps
    assert len({value[1] for value in found.output}) > 3
    assert returns(found) == 0


def test_the_timers_that_stand_are_those_of_records() -> None:
    found, expected = both(Silence, *some_steps()[:-1])
    left = found.snapshot()["timers"].groups

    assert left == expected.snapshot()["timers"].groups
    assert 0 < sum(map(len, left.values())) <= 6  # one of a key


def test_results_of_timers_have_their_times_in_order() -> None:
    found = harness_of(on_columns(Once()), [(1, 30, ""), (2, 10, ""), (1, 20, "")], 15, 30)

    assert found.output_with_timestamps == [((2, 1, 10), 10), ((1, 2, 20), 20), ((1, 2, 30), 30)]
    assert found.watermarks == [15, 30]
    assert returns(found) == 0


@pytest.mark.parametrize("function", [Silence, Once, Periodic])
@pytest.mark.parametrize(("first", "then"), [(on_columns, in_rows), (in_rows, on_columns)])
def test_a_snapshot_with_timers_restores_on_the_other_path(function: Any, first: Any, then: Any) -> None:
    steps = some_steps()
    before = harness_of(first(function()), *steps[:5])
    after = OperatorHarness.restored(then(function()), before.snapshot(), keyed=True)
    give(after, *steps[5:])
    expected = harness_of(in_rows(function()), *steps)

    assert len(list(before.snapshot()["timers"].groups)) > 1
    assert sorted([*before.output, *after.output]) == sorted(expected.output)
    assert expected.output


def test_a_timer_in_the_past_fires_at_the_next_watermark() -> None:
    found = harness_of(on_columns(Once()), [(1, 60, "")], 50, [(1, 10, "")])
    assert found.output == []
    give(found, 51)

    assert found.output_with_timestamps == [((1, 2, 10), 10)]
    assert returns(found) == 0


@pytest.mark.parametrize("function", [Silence, Once, Periodic, Cancels])
def test_more_timers_than_a_block_may_have(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    monkeypatch.setattr(due_timers, "AT_ONCE", 3)
    found, expected = both(function, *some_steps(2))

    assert by_key(found) == by_key(expected)
    assert returns(found) == 0


@pytest.mark.parametrize("function", [Periodic, Cancels])
def test_timers_that_change_others_go_in_waves(function: Any) -> None:
    found, expected = both(function, *some_steps(3))

    assert by_key(found) == by_key(expected)
    assert len(found.output) > 20
    assert returns(found) == 0


def test_waves_come_out_in_the_order_of_time() -> None:
    found = harness_of(on_columns(Periodic()), [(1, 40, ""), (2, 5, "")], 70)
    times = [stamp for _, stamp in found.output_with_timestamps]

    assert times == [5, 15, 25, 35, 40, 45, 50, 55, 60, 65]
    assert (
        found.output_with_timestamps
        == harness_of(in_rows(Periodic()), [(1, 40, ""), (2, 5, "")], 70).output_with_timestamps
    )


@pytest.mark.parametrize(
    "steps",
    [
        ([(1, at, "") for at in range(70, 90)], 100),
        ([(1, -2000, ""), (2, 30, "")], 100),
    ],
    ids=["many of a key", "many waves"],
)
def test_many_timers_of_a_key_go_to_the_function(steps: Any) -> None:
    found, expected = both(Periodic, *steps)

    assert by_key(found) == by_key(expected)
    assert returns(found) == 1
    assert list(found.context.timers.event_times if found.context.timers else [1]) == []


def test_keys_of_another_type_go_to_the_function() -> None:
    before = harness_of(in_rows(Once()))
    before.feed(("a", 20, ""), 20)
    before.feed((1, 20, ""), 20)
    found = OperatorHarness.restored(on_columns(Once()), before.snapshot(), keyed=True)
    give(found, [(1, 30, "")], 20, [(1, 40, "")], 50)

    assert sorted(found.output[:2], key=str) == [("a", 1, 20), (1, 2, 20)]
    assert found.output[2:] == [(1, 3, 30), (1, 3, 40)]
    assert returns(found) == 1


def test_a_timer_that_raises_shows_where() -> None:
    steps, told = ([(1, 3, ""), (2, 5, ""), (1, 8, "")], 4), []
    for spec in (on_columns, in_rows):
        harness = harness_of(spec(Divides()), *steps)
        with pytest.raises(ZeroDivisionError) as raised:
            give(harness, 9)
        told.append((harness.output, traceback.extract_tb(raised.tb)[-1].line, str(raised.value)))

    assert told[0] == told[1]
    assert told[0][:2] == ([(1, -30, 3)], "yield ctx.get_current_key(), 60 // (timestamp - 5), timestamp")


def test_a_function_may_set_timers_that_call_nothing() -> None:
    found = harness_of(on_columns(Unheard()), [(1, 5, ""), (1, 6, "")], 9, [(1, 12, "")], 20)

    assert found.output == [(1, 1, 0), (1, 2, 0), (1, 3, 0)]
    assert found.snapshot()["timers"].groups == harness_of(in_rows(Unheard()), 20).snapshot()["timers"].groups
    assert returns(found) == 0


def test_two_inputs_have_their_timers_together() -> None:
    steps = [[(key, 10 + key, "") for key in range(5)], ([(3, 4, ""), (1, 4, "")],), 12, [(1, 30, "")], 13, 40]
    found, expected = both(Expected, *steps)

    assert found.output_with_timestamps == expected.output_with_timestamps
    assert [value for value in found.output if not value[1]] == [(0, 0, 10), (2, 0, 12), (4, 0, 14), (1, 0, 30)]
    assert returns(found) == 0


def test_late_records_are_known_by_the_watermark() -> None:
    found = harness_of(on_columns(InTime()), [(1, -5, "")], 10, [(1, 10, ""), (1, 11, ""), (2, 3, "")])

    assert found.output == [(1, 1, -5), (1, 2, 11)]
    assert returns(found) == 0


def test_in_batch_timers_wait_for_the_end() -> None:
    steps = some_steps(4)
    found, expected = both(Periodic, *steps, batch=True)
    assert found.output == []
    found.end_input()
    expected.end_input()

    assert found.output_with_timestamps == expected.output_with_timestamps
    assert found.output


def test_a_job_with_timers_is_vectorized() -> None:
    results = []
    for vectorized in (True, False):
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[1])
        source = DataGeneratorSource(lambda i: (i * i % 19, i * 3, ""), 1000)
        told = env.from_source(source, by_time).key_by(lambda r: r[0]).process(Told()).name("told")
        assert ("told: vectorized" in env.explain()) == vectorized
        results.append(sorted(told.execute_and_collect(limit=10**6)))

    assert results[0] == results[1]
    assert len(results[0]) == 1000


KEPT: Callable[..., Any] = blocks.kept_records
SET: Callable[..., None] = due_timers.set_timers
MISTAKES: dict[str, tuple[int, Any, str, Any]] = {
    "timers the other way round": (144, logic, "set_timers", lambda to, found: SET(to, reversed([*found]))),
    "no timer deleted": (144, logic, "set_timers", lambda to, found: SET(to, [each for each in found if not each[2]])),
    "all timers at once": (258, due_timers.DueTimers, "take_firsts", due_timers.DueTimers.take),
    "ties": (
        0, blocks, "kept_records",
        lambda step, *rest: KEPT(replace(step, best=replace(step.best, strict=not step.best.strict)), *rest),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_kernel_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    """Cases that need timers are one of some hundred: each mistake has one, and those behind it."""
    first, *broken = MISTAKES[mistake]
    monkeypatch.setattr(*broken)
    fuzzer = StateFuzzer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert any(fuzzer.run(case) for case in range(first, first + 300))


def test_results_of_waves_that_stay_as_they_come_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logic, "in_order_of_time", lambda made: joined([each for each in made if each.length]))
    steps = [[(1, 40, ""), (2, 5, "")], 70]
    found, expected = both(Periodic, *steps)

    assert found.output_with_timestamps != expected.output_with_timestamps
    assert sorted(found.output) == sorted(expected.output)


def test_a_timer_that_sets_one_before_itself_fires_it_afterwards() -> None:
    found, expected = both(Earlier, [(1, 10, "a"), (2, 10, "a"), (2, 7, "")], 20)

    assert by_key(found) == by_key(expected)
    assert expected.output == [(2, 7, 2), (1, 10, 1), (1, 5, 1), (2, 10, 2), (2, 5, 2)]
    assert returns(found) == 1


def test_an_on_timer_that_is_no_method_is_refused() -> None:
    with pytest.raises(NotVectorizable, match="on_timer\\(\\) that is replaced on the object"):
        on_columns(OnTheObject())


class OfAnImport(Once):
    """A variable with the name of an imported module: its methods are loaded as attributes."""

    def process_element(self, value: Any, ctx: Any) -> None:
        due_timers, joined = ctx.timer_service(), self.count
        joined.update(joined.value() + 1)
        due_timers.register_event_time_timer(value[1])


def test_variables_may_have_the_names_of_modules() -> None:
    found, expected = both(OfAnImport, *some_steps(3))

    assert found.output_with_timestamps == expected.output_with_timestamps
    assert returns(found) == 0

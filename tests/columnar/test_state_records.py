"""Records that states keep: the best one of each key by one scan, and those that are only replaced, in a log of columns."""

import random
from typing import Any

import pytest

from funken.columnar.stateful.typed import Best, Rounds, Step
from funken.operators.stateful import arrays
from funken.testing import OperatorHarness
from tests.columnar.functions_with_records import (
    Cleared,
    ClearedOrCompared,
    Computed,
    FirstOfEqual,
    Floats,
    GreatestText,
    InMap,
    IntsThenText,
    Kept,
    Last,
    LastOfEqual,
    LeastInt,
    Numbered,
    Reduced,
    WithDefault,
)
from tests.columnar.state_operators import both, give, harness_of, in_rows, on_columns, returns


def steps_of(function: Any) -> tuple[Step, ...]:
    steps: tuple[Step, ...] = on_columns(function).on_columns.functions[0].steps
    return steps


def blocks_of(seed: int, ints: Any = range(-4, 5), count: int = 8, length: int = 25) -> list[Any]:
    dice = random.Random(seed)
    return [[(dice.randrange(4), dice.choice(ints), dice.choice("abcx")) for _ in range(length)] for _ in range(count)]


def rows_of(harness: OperatorHarness) -> list[str]:
    groups = harness.snapshot()["keyed"].groups
    return sorted(repr((name, row)) for states in groups.values() for name, rows in states.items() for row in rows)


@pytest.mark.parametrize(
    "function",
    [
        LeastInt,
        GreatestText,
        IntsThenText,
        FirstOfEqual,
        LastOfEqual,
        Cleared,
        WithDefault,
        InMap,
        Reduced,
        Floats,
        ClearedOrCompared,
    ],
)
def test_the_best_record_is_found_by_one_scan(function: Any) -> None:
    found, expected = both(function, *blocks_of(1))

    assert [type(step) for step in steps_of(function())].count(Best) == 1
    assert found.output == expected.output
    assert rows_of(found) == rows_of(expected)
    assert returns(found) == 0


@pytest.mark.parametrize("function", [Computed])
def test_what_is_no_scan_goes_round_by_round(function: Any) -> None:
    found, expected = both(function, *blocks_of(2))

    assert isinstance(steps_of(function())[-1], Rounds)
    assert found.output == expected.output


def test_numbers_that_are_none_go_to_the_function() -> None:
    found, expected = both(Floats, *blocks_of(3, ints=[1, 4, 9]))

    assert list(map(repr, found.output)) == list(map(repr, expected.output))
    assert returns(found) > 0


def test_zeros_with_other_signs_are_alike() -> None:
    class Zeros(Kept):
        def process_element(self, value: Any, ctx: Any) -> Any:
            best = self.best.value()
            if best is None or value[1] * 0.0 < best[0]:
                self.best.update((value[1] * 0.0, value[2]))
            yield best or (1.0, "")

    found, expected = both(Zeros, [(1, 3, "a"), (1, -3, "b"), (1, 5, "c")], [(1, 5, "d"), (1, -5, "e")])

    assert list(map(repr, found.output)) == list(map(repr, expected.output)) == ["(1.0, '')", *["(0.0, 'a')"] * 4]
    assert returns(found) == 0


def test_the_best_so_far_restores_on_the_other_path() -> None:
    steps = blocks_of(4)
    expected = harness_of(in_rows(IntsThenText()), *steps).output
    for first, then in ((on_columns, in_rows), (in_rows, on_columns)):
        before = harness_of(first(IntsThenText()), *steps[:4])
        after = give(OperatorHarness.restored(then(IntsThenText()), before.snapshot(), keyed=True), *steps[4:])

        assert before.output + after.output == expected


def many_keys(blocks: int, keys: int, length: int) -> list[Any]:
    dice = random.Random(5)
    return [[(dice.randrange(keys), n + i, f"t{n}") for i in range(length)] for n in range(blocks)]


@pytest.mark.parametrize("few", [0, 4096])
def test_records_of_many_keys_are_those_of_rows(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(arrays, "_FEW_RECORDS", few)
    monkeypatch.setattr(arrays, "_AT_ONCE", 7)
    found, expected = both(Last, *many_keys(30, 100, 40))

    assert on_columns(Last()).on_columns.whole == (True,)
    assert found.output == expected.output
    assert rows_of(found) == rows_of(expected)
    assert returns(found) == 0


def test_the_log_has_few_records_that_are_kept_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_FEW_RECORDS", 50)
    found = harness_of(on_columns(Last()))
    operator: Any = found.operator
    lengths = []
    for block in many_keys(60, 100, 40):
        give(found, block)
        lengths.append(len(operator._states._of_key.logs[0]))

    assert max(lengths) <= 2 * 100 + 40
    assert lengths != sorted(lengths)


def test_records_in_the_log_restore_on_the_other_path() -> None:
    steps = many_keys(10, 20, 30)
    expected = harness_of(in_rows(Last()), *steps).output
    for first, then in ((on_columns, in_rows), (in_rows, on_columns), (on_columns, on_columns)):
        before = harness_of(first(Last()), *steps[:5])
        after = give(OperatorHarness.restored(then(Last()), before.snapshot(), keyed=True), *steps[5:])

        assert before.output + after.output == expected


def test_a_record_that_depends_on_itself_is_not_whole() -> None:
    found, expected = both(Numbered, *blocks_of(6))

    assert on_columns(Numbered()).on_columns.whole == (False,)
    assert found.output == expected.output

"""flat_map on columns: random functions against Python, and what is said of functions that are not read."""

import warnings
from typing import Any

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    FlatMapFunction,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.expr.types import INT, STR, Tuple
from funken.operators.columnar import stateless as flat_map
from tests.support.traced.flat_maps import FlatMapFuzzer

CASES, PART = 300, 60


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_kernels_give_what_python_gives_for_random_functions(first: int) -> None:
    fuzzer = FlatMapFuzzer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of functions that compare text with numbers
        found = [difference for case in range(first, first + PART) if (difference := fuzzer.run(case))]

    assert not found, "\n".join(f"{case}: {fact}\n{source}" for case, source, fact in found)
    assert fuzzer.counts["columns"] > PART / 2
    assert fuzzer.counts["rows: it raises"]


@pytest.mark.parametrize("broken", ["order", "spaces"])
def test_a_kernel_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "order":
        monkeypatch.setattr(flat_map.np, "lexsort", lambda keys: flat_map.np.argsort(keys[-1], kind="stable"))
    else:
        monkeypatch.setattr(flat_map, "split_by_spaces", lambda array: flat_map.split_texts(array, " "))
    fuzzer = FlatMapFuzzer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert any(fuzzer.run(case) for case in range(PART * 20))


PARTS = ("a,b", "c")


def never_in_a_loop(value: Any) -> Any:
    for word in PARTS[value[0]].split(","):
        if type(" ") is str:  # noqa: UP003 - is to be found out
            continue
        yield word
    yield "end"


def never_below_a_condition(value: Any) -> Any:
    if 10 // value[0] > 2 and type(value[0]) is str:
        yield "text"
    yield "end"


def never_for_a_word(value: Any) -> Any:
    for word in value[1].split(","):
        if int(word) > 2:  # noqa: SIM102 - two conditions
            if type(word) is int:
                yield "number"
    yield "end"


@pytest.mark.parametrize(
    ("function", "first"), [(never_in_a_loop, 1), (never_below_a_condition, -1), (never_for_a_word, 0)]
)
def test_what_raises_on_the_way_to_nothing_raises(function: Any, first: int) -> None:
    """Found by 10,000 random functions: a loop of which no result is ever given was not evaluated. The second record raises."""
    for count in (1, 2):
        found: list[Any] = []
        for vectorize in (True, False):
            configuration = Configuration({"pipeline.vectorized": vectorize})
            env = StreamExecutionEnvironment.create_local_environment(1, configuration)
            source = DataGeneratorSource(lambda i: (i + first, "1,two" if i else "1,2"), count)
            stream = env.from_source(source, WatermarkStrategy.no_watermarks()).flat_map(function)
            assert ("flat_map: vectorized" in env.explain()) == vectorize
            try:
                found.append(list(stream.execute_and_collect(limit=99)))
            except Exception as error:  # noqa: BLE001 - compared
                found.append(type(error.__cause__ or error))
        assert found[0] == found[1]
        assert isinstance(found[0], list) == (count == 1)


class Words(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        for word in value[1].split():
            if word != "skip":
                yield word, value[0]


def numbered(value: Any) -> Any:
    words = value[1].split(" ")
    return [(word, len(words[0])) for word in words if word]


FUNCTIONS: list[Any] = [
    Words(),
    numbered,
    lambda value: None if value[0] % 3 else [(value[1], value[0]), ("again", value[0] + 1)],
    lambda value: [(value[1], 2**62 * value[0])] if value[0] > 1 else [],  # leaves 64 bits: falls back
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_programs_give_the_same_results_and_timestamps(function: Any) -> None:
    found = []
    for vectorize in (True, False):
        configuration = Configuration({"pipeline.vectorized": vectorize, "execution.block.records": 60})
        env = StreamExecutionEnvironment.create_local_environment(1, configuration)
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[0] * 10)
        source = DataGeneratorSource(lambda i: (i, f"word {i % 7} skip to be "), 200)
        stream = env.from_source(source, strategy).flat_map(function)
        assert ("flat_map: vectorized" in env.explain()) == vectorize
        stamped = stream.process(lambda record, ctx: [(record, ctx.timestamp())])
        found.append(stamped.execute_and_collect(limit=2000))
    assert len(found[1]) > 60
    assert found[0] == found[1]


def nested(line: str) -> Any:
    for word in line.split():
        for part in word.split(","):
            yield part.strip()


def early(line: str) -> Any:
    for word in line.split():
        if word == "end":
            break
        yield word


def carried(line: str) -> Any:
    before = ""
    for word in line.split():
        yield before + word
        before = word


REFUSED: list[tuple[Any, Any, str]] = [
    (lambda line: zip(line, line, strict=True), STR, "calls zip()"),
    (lambda line: line, STR, "loops over str"),
    (lambda line: [line, 1], STR, "gives sometimes str and sometimes int"),
    (lambda line: None, STR, "gives no results"),
    (nested, STR, "has a loop in a loop"),
    (early, STR, "leaves a loop early"),
    (carried, STR, "uses the variable 'before' before it has a value"),
    (lambda pair: [each for each in pair], Tuple((INT, INT)), "loops over (int, int)"),
    (lambda line: {word for word in line.split()}, STR, "uses a set"),
]


@pytest.mark.parametrize(("function", "schema", "reason"), REFUSED)
def test_what_is_not_read_is_told(function: Any, schema: Any, reason: str) -> None:
    with pytest.raises(NotVectorizable, match=reason.replace("(", "\\(").replace(")", "\\)")):
        trace_flat_map(function, None).typed(schema)


def one_object(line: str) -> list[dict[str, int]]:
    found = {"n": 1}
    return [found for _ in line.split()]


def own_objects(line: str) -> list[dict[str, str]]:
    return [{"word": word} for word in line.split() if word != "a"]


def of_a_display(line: str) -> list[tuple[str, int]]:
    return [(name, size) for name, size in (("line", len(line)), ("rest", 12 // (len(line) - 3))) if size > 1]


def test_a_comprehension_that_is_returned_is_a_loop() -> None:
    with pytest.raises(NotVectorizable, match="gives one object several times"):
        trace_flat_map(one_object, None).typed(STR)

    traced, _ = trace_flat_map(own_objects, None).typed(STR)
    (emission,) = traced.emissions
    assert emission.items is not None
    assert len(emission.conditions) == 1


@pytest.mark.parametrize("lines", [["a", "bb", "a bb ccc", "dddddddd"], ["abc"]])
def test_the_items_of_a_display_have_their_conditions(lines: list[str]) -> None:
    traced, results = trace_flat_map(of_a_display, None).typed(STR)

    if "abc" in lines:
        with pytest.raises(FallBackToRows):
            flat_map.given_of(traced.emissions, results, columns_of(lines, STR))
        return
    found = flat_map.given_of(traced.emissions, results, columns_of(lines, STR))
    assert found.to_list() == [pair for line in lines for pair in of_a_display(line)]


def test_a_display_within_a_comprehension_gives_nothing_by_itself() -> None:
    """Found by random functions: what it appends to was taken for the list of the comprehension."""

    def function(value: Any) -> Any:
        return [max([*[len(word) for word in value[1].split(",")], value[0]]) for _ in value[1].split()]

    records = [(2, "abc,d e"), (5, "a")]
    schema = Tuple((INT, STR))
    traced, results = trace_flat_map(function, None).typed(schema)
    given = flat_map.given_of(traced.emissions, results, columns_of(records, schema))

    assert given.to_list() == [item for record in records for item in function(record)]


def test_what_is_used_for_no_item_only_raises_all_the_same() -> None:
    """Found by random functions: the first word is taken before the loop, and used for the words that are long."""

    def function(value: Any) -> Any:
        first = value[1].split()[0]
        yield from [word for word in [each + first for each in value[1].split() if len(each) > value[0]] if word]

    schema = Tuple((INT, STR))
    traced, results = trace_flat_map(function, None).typed(schema)

    assert flat_map.given_of(traced.emissions, results, columns_of([(1, "to be")], schema)).to_list() == [
        "toto",
        "beto",
    ]
    with pytest.raises(FallBackToRows):
        flat_map.given_of(traced.emissions, results, columns_of([(1, "to be"), (1, "")], schema))

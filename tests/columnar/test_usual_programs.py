"""Programs as users write them: they run on columns, and give what records give, in order.

What comes from a source of numbers is made of them by traced functions, what comes from a file is text.
"""

import json
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    DataStream,
    DiscardingSink,
    FileSource,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    Row,
    StreamExecutionEnvironment,
    StreamFormat,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)

COUNT = 600
UNTIMED = WatermarkStrategy.no_watermarks()
TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r["at"])
LOG = re.compile(r'(?P<ip>\S+) (\d+) "(\w+) (?P<path>\S+)" (\d{3})( \d+)?')
LIMIT = 40


class Sale(NamedTuple):
    item: str
    n: int
    price: float


@dataclass
class Visit:
    user: str
    clicks: int


def generated(env: StreamExecutionEnvironment, function: Callable[[int], Any], strategy: Any = UNTIMED) -> DataStream:
    return env.from_source(DataGeneratorSource(function, COUNT), strategy, "generated")


def events(env: StreamExecutionEnvironment) -> DataStream:
    return generated(env, lambda i: {"user": f"u{i % 7}", "n": i * 37 % 100, "at": i, "name": f"n{i % 5}"}, TIMED)


def lines_of(path: Path, lines: list[str]) -> Callable[[StreamExecutionEnvironment], DataStream]:
    path.write_text("".join(f"{line}\n" for line in lines))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    return lambda env: env.from_source(source, UNTIMED, "lines")


def both(build: Callable[[StreamExecutionEnvironment], DataStream], unordered: bool = False) -> tuple[list[Any], str]:
    """Return the results, after having seen that both paths give the same ones, and what ``explain`` says of columns."""
    results: list[Any] = []
    for columns in (True, False):
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": columns}))
        with build(env).execute_and_collect() as found:
            results.append([repr(each) for each in found])
    assert (sorted(results[0]) if unordered else results[0]) == (sorted(results[1]) if unordered else results[1])
    env = StreamExecutionEnvironment.create_local_environment(1)
    build(env).sink_to(DiscardingSink())
    return results[0], "\n".join(line for line in env.explain().splitlines() if "columns:" in line)


def per_record(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines() if "per record" in line]


# ---- windows that get all their records


class Summary(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        count, total, large = 0, 0, []
        for event in elements:
            count += 1
            if event["n"] > 50:
                total += event["n"]
                large.append(event["name"])
        yield key, context.window().end, count, total, large


class Best(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        for event in sorted(elements, key=lambda event: (-event["n"], event["name"]))[:2]:
            yield {"user": key, "n": event["n"]}


class Different(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        names = {event["name"] for event in elements}
        first, last = elements[0], elements[-1]
        most = max(elements, key=lambda event: event["n"])
        return [
            (key, len(names), sorted(set(event["n"] % 3 for event in elements)), last["at"] - first["at"], most["at"])
        ]


@pytest.mark.parametrize("function", [Summary(), Best(), Different()], ids=lambda each: type(each).__name__)
def test_windows_hand_all_their_records_to_a_function(function: ProcessWindowFunction) -> None:
    results, said = both(
        lambda env: events(env).key_by(lambda r: r["user"]).window(TumblingEventTimeWindows.of(100)).process(function)
    )

    assert len(results) >= 42
    assert "window process: vectorized" in said


def test_the_best_by_a_key_that_is_no_number_is_what_python_takes() -> None:
    """Nothing is greater or less than nan: which record is taken depends on where it stands, and not on an order."""

    def best(key: Any, window: Any, elements: Any) -> Any:
        most = max(elements, key=lambda each: each["x"])
        return [(key, most["at"], min(elements, key=lambda each: each["x"])["at"])]

    results, said = both(
        lambda env: (
            generated(env, lambda i: {"k": i % 7, "x": float("nan") if i % 5 == 1 else i * 37 % 11 / 2, "at": i}, TIMED)
            .key_by(lambda r: r["k"]).window(TumblingEventTimeWindows.of(100)).apply(best)
        )
    )  # fmt: skip

    assert len(results) == 42
    assert not per_record(said)


def test_windows_of_all_keys_do_as_well() -> None:
    results, said = both(
        lambda env: events(env).window_all(TumblingEventTimeWindows.of(200)).apply(
            lambda window, elements: [(window.start, len(elements), sum(each["n"] for each in elements))]
        )
    )  # fmt: skip

    assert len(results) == 3
    assert "window apply: vectorized" in said


def test_a_window_whose_function_is_not_read_keeps_records() -> None:
    def counted(key: Any, window: Any, elements: Any) -> Any:
        counts: dict[str, int] = {}
        for event in elements:
            counts[event["name"]] = counts.get(event["name"], 0) + 1
        return [(key, sorted(counts.items()))]

    _, said = both(
        lambda env: events(env).key_by(lambda r: r["user"]).window(TumblingEventTimeWindows.of(100)).apply(counted)
    )

    assert "window apply: per record: its window function changes an item" in said


# ---- unions


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", default=0))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.sum.update(self.sum.value() + value[1])

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.sum.update(self.sum.value() + 1)
        yield value[0], value[1] % 2 == 0  # the order of both inputs decides about the sum


def test_unions_of_columns_are_columns() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        numbers = generated(env, lambda i: (f"k{i % 5}", i))
        some, others = numbers.filter(lambda r: r[1] % 3 == 0), numbers.map(lambda r: (r[0], -r[1]))
        summed = some.union(others, numbers.rebalance()).key_by(lambda r: r[0]).sum(1)
        counted = summed.map(lambda r: r[0] == "k1")  # the order of sums is that in which inputs come
        doubled = some.union(others).key_by(lambda r: r[0]).connect(numbers.key_by(lambda r: r[0])).process(Both())
        return counted.union(doubled.map(lambda r: r[1]))

    results, said = both(build, unordered=True)

    assert len(results) == 200 + 600 + 600 + 600
    assert not per_record(said)


def test_a_union_of_two_schemas_is_told() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        ints, floats = generated(env, lambda i: (i, i)), generated(env, lambda i: (i, i / 2))
        return ints.union(floats).map(lambda r: r[1] * 2)

    _, said = both(build, unordered=True)

    assert "map: per record: is given (int, int) and (int, float)" in said


# ---- None, and exceptions


def test_maps_leave_out_what_filters_drop() -> None:
    def parsed(number: int) -> Any:
        if number % 4 == 0:
            return None
        return {"n": number, "part": 100 // (number % 4)} if number > 10 else None

    results, said = both(
        lambda env: (
            generated(env, lambda i: i).map(parsed).filter(lambda r: r is not None).map(lambda r: r["n"] + r["part"])
        )
    )

    assert len(results) == 442
    assert not per_record(said)
    results, said = both(
        lambda env: (
            generated(env, lambda i: i).map(lambda i: i if i % 3 else None).filter(lambda v: v).map(lambda v: v + 1)
        )
    )
    assert len(results) == 400
    assert not per_record(said)


def test_maps_keep_none_that_somebody_sees() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        pairs = generated(env, lambda i: i).map(lambda i: (i, i) if i % 3 else None)
        return pairs.filter(lambda r: r is None or r[0] > LIMIT).map(lambda r: r is None)

    results, said = both(build)

    assert results.count("True") == 200
    assert "map: per record: gives sometimes (int, int) and sometimes None" in said


def test_none_of_a_handler_makes_no_rows_of_what_comes_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def number(text: str) -> Any:
        try:
            return int(text)
        except ValueError:
            return None

    def build(env: StreamExecutionEnvironment) -> DataStream:
        texts = generated(env, lambda i: f"{i}{'x' if i == 300 else ''}").map(number)
        return texts.filter(lambda n: n is not None).map(lambda n: n + 1)

    results, said = both(build)
    assert len(results) == COUNT - 1
    assert not per_record(said)

    def emitted_rows(block: Any) -> Any:
        raise AssertionError(f"rows: {block}")

    monkeypatch.setattr("funken.operators.columnar.path.RowBlock", emitted_rows)
    with build(StreamExecutionEnvironment.create_local_environment(1)).execute_and_collect() as found:
        assert [repr(each) for each in found] == results


@pytest.mark.parametrize("every", [1_000_000, 97, 3])
def test_functions_that_catch_what_they_raise(every: int) -> None:
    """However often it happens, the records that raise are the only ones that are called for, if they are few."""

    def number(text: str) -> int:
        try:
            return int(text.split(",")[1])
        except ValueError:
            return -1

    results, said = both(
        lambda env: generated(env, lambda i: f"a,{i}{'x' if i % every == every - 1 else ''}").map(number)
        .key_by(lambda n: n % 3).max(0)
    )  # fmt: skip

    assert len(results) == COUNT
    assert not per_record(said)


def test_a_generator_that_catches_gives_what_it_gave_before() -> None:
    def quotients(number: int) -> Any:
        try:
            yield number
            yield 100 // (number % 50)
        except ZeroDivisionError:
            yield -number

    results, said = both(lambda env: generated(env, lambda i: i).flat_map(quotients).filter(lambda n: n < LIMIT))

    assert "-50" in results
    assert not per_record(said)


def test_what_is_not_caught_still_fails_the_job() -> None:
    def number(text: str) -> int:
        try:
            return int(text)
        except KeyError:
            return -1

    env = StreamExecutionEnvironment.create_local_environment(1)
    with pytest.raises(Exception, match="invalid literal for int"):
        generated(env, lambda i: f"{i}{'x' if i == 300 else ''}").map(number).execute_and_collect(limit=COUNT)


# ---- text


def access(i: int) -> str:
    return f'10.0.0.{i % 9} {1700000000 + i} "GET /p{i % 4}?q=1" {500 if i % 11 == 0 else 200}{" 17" if i % 2 else ""}'


def fields(line: str) -> Any:
    found = LOG.match(line)
    if found is None:
        return None
    named = found.groupdict()
    size = found.group(6)
    return {"ip": named["ip"], "at": int(found[2]), "path": found["path"].split("?")[0], "sized": size is not None}


def test_groups_of_regular_expressions(tmp_path: Path) -> None:
    lines = lines_of(tmp_path / "log.txt", [access(i) if i % 100 else "what is this" for i in range(COUNT)])
    results, said = both(
        lambda env: lines(env).map(fields).filter(lambda r: r is not None).key_by(lambda r: r["path"]).max("at")
    )

    assert len(results) == COUNT - 6
    assert not per_record(said)


def order(i: int) -> dict[str, Any]:
    return {"user": f"u{i % 6}", "price": i / 4, "id": i, "tags": ["a", "b"][: i % 3], "note": "été"}


def user_and_price(line: str) -> Any:
    parsed = json.loads(line)
    return parsed["user"], parsed["price"] * 2, len(parsed["tags"])


def whole(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


JSON_PROGRAMS: dict[str, Callable[[DataStream], DataStream]] = {
    "in a function": lambda lines: lines.map(user_and_price).filter(lambda r: r[2] > 0),
    "as the function": lambda lines: (
        lines.map(json.loads).filter(lambda d: d["price"] > LIMIT).map(lambda d: (d["user"], d["id"]))
    ),
    "in flat_map": lambda lines: lines.flat_map(lambda line: [(tag, 1) for tag in json.loads(line)["tags"]]),
    "with a filter of lines": lambda lines: lines.filter(lambda line: '"u3"' in line).map(user_and_price),
    "caught": lambda lines: lines.map(whole).filter(lambda d: d is not None).map(lambda d: d["user"]),
}


@pytest.mark.parametrize("name", JSON_PROGRAMS)
def test_json_in_texts(name: str, tmp_path: Path) -> None:
    lines = lines_of(tmp_path / "orders.txt", [json.dumps(order(i)) for i in range(COUNT)])
    results, said = both(lambda env: JSON_PROGRAMS[name](lines(env)))

    assert len(results) >= 90
    assert not per_record(said)


@pytest.mark.parametrize(
    "odd",
    [
        '{"user": "u1", "price": 3, "id": 1, "tags": []}',  # an int, where floats are
        '{"user": "u1", "id": 1, "tags": [], "price": 1e400}',
        '{"user": "\\ud800", "id": 1, "tags": [], "price": 1.5}',
        '{"user": "u1", "price": NaN, "id": 1, "tags": [1], "more": {}}',
        '{"id": 123456789012345678901234567890, "user": "u1", "price": 1.0, "tags": []}',
        ' {"user": "u1", "price": 1.5, "id": 1, "tags": []} ',
        '{"user": "u1", "user": "u2", "price": 1.5, "id": 1, "tags": []}',
    ],
)
def test_documents_that_are_not_like_the_others(odd: str, tmp_path: Path) -> None:
    """They are read as Python reads them."""
    lines = lines_of(
        tmp_path / "orders.txt", [odd if i == 1200 else json.dumps(order(i), ensure_ascii=False) for i in range(1300)]
    )
    results, _ = both(lambda env: lines(env).map(json.loads).map(lambda d: (d["user"], d["price"], d["id"])))

    assert len(results) == 1300


def test_documents_that_are_handed_on_whole_are_read_whole(tmp_path: Path) -> None:
    lines = lines_of(tmp_path / "orders.txt", [json.dumps(order(i)) for i in range(COUNT)])
    results, said = both(lambda env: lines(env).map(json.loads).filter(lambda d: d["id"] < 3))

    assert "'tags': ['a', 'b']" in results[2]
    assert "map: per record: 'sink' is given whole records" in said


def test_json_of_texts_that_a_function_has_made_is_not_known(tmp_path: Path) -> None:
    lines = lines_of(tmp_path / "orders.txt", [json.dumps(order(i)) for i in range(COUNT)])
    _, said = both(lambda env: lines(env).map(lambda line: json.loads(line.strip())["id"]))

    assert "calls json.loads() with text that does not come from a source as it is" in said


def test_text_that_is_no_utf_8_fails_as_before(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes(b"to be\n" * 5 + "été\n".encode("latin-1"))
    env = StreamExecutionEnvironment.create_local_environment(1)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    with pytest.raises(Exception, match=r"at offset 30 are not utf-8.*name its charset"):
        env.from_source(source, UNTIMED, "lines").map(lambda line: line.upper()).execute_and_collect(limit=9)


# ---- fields by name, and states


AGGREGATES: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any], Callable[[Any], DataStream]]] = {
    "dict": (lambda i: {"k": f"k{i % 5}", "n": i * 7 % 100}, lambda r: r["k"], lambda keyed: keyed.max("n")),
    "named tuple": (lambda i: Sale(f"k{i % 5}", i, i / 4), lambda r: r.item, lambda keyed: keyed.sum("price")),
    "by number": (lambda i: Sale(f"k{i % 5}", i, i / 4), lambda r: r.item, lambda keyed: keyed.sum(1)),
    "row": (lambda i: Row(k=f"k{i % 5}", n=i * 7 % 100), lambda r: r.k, lambda keyed: keyed.min(1)),
    "whole rows": (lambda i: Row(k=f"k{i % 5}", n=i * 7 % 100), lambda r: r.k, lambda keyed: keyed.max_by("n")),
    "dataclass": (lambda i: Visit(f"k{i % 5}", i * 7 % 100), lambda r: r.user, lambda keyed: keyed.sum("clicks")),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_of_named_fields(name: str) -> None:
    make, key, aggregate = AGGREGATES[name]
    _, said = both(lambda env: aggregate(generated(env, make).key_by(key)))

    assert not per_record(said)


class Switch(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.on = runtime_context.get_state(ValueStateDescriptor("on"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.on.value() is not False:
            yield value[0], self.on.value() is True
        self.on.update(value[1] % 3 == 0)


def test_identities_of_bools() -> None:
    results, said = both(lambda env: generated(env, lambda i: (i % 7, i // 7)).key_by(lambda r: r[0]).process(Switch()))

    assert "(0, True)" in results
    assert "(0, False)" in results
    assert not per_record(said)


# ---- process functions, and side outputs

LARGE, BAD = OutputTag("large"), OutputTag("bad")


class Routed(ProcessFunction):
    def __init__(self, tag: Any) -> None:
        self.tag = tag

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value["n"] % 10 == 3:
            yield BAD, f"bad {value['n']}"
            return
        if value["n"] > 50:
            ctx.output(self.tag, (value["user"], ctx.timestamp()))
        yield value["user"], 100 // (value["n"] + 1)


@pytest.mark.parametrize("tag", [None, LARGE, BAD])
def test_process_functions_give_to_side_outputs(tag: Any) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream:
        routed = events(env).process(Routed(LARGE))
        return routed.map(lambda r: r) if tag is None else routed.get_side_output(tag)

    results, said = both(build)

    assert len(results) == {None: 540, LARGE: 264, BAD: 60}[tag]
    assert "process: vectorized" in said


def test_a_process_function_without_a_main_output() -> None:
    class OnlySide(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            if value > LIMIT:
                yield LARGE, value

    results, said = both(lambda env: generated(env, lambda i: i).process(OnlySide()).get_side_output(LARGE))

    assert len(results) == COUNT - LIMIT - 1
    assert "process: vectorized" in said


def test_a_process_function_that_raises_fails_with_its_own_traceback() -> None:
    def divided(value: int, ctx: Any) -> Any:
        yield 100 // (value - 300)

    env = StreamExecutionEnvironment.create_local_environment(1)
    with pytest.raises(Exception, match="ZeroDivisionError") as raised:
        generated(env, lambda i: i).process(divided).execute_and_collect(limit=COUNT)

    assert "yield 100 // (value - 300)" in "".join(traceback.format_exception(raised.value))


def test_what_else_is_asked_of_the_context_is_told() -> None:
    def told(value: int, ctx: Any) -> Any:
        yield value, ctx.timer_service().current_watermark() < 0

    _, said = both(lambda env: generated(env, lambda i: i).process(told))

    assert "process: per record: asks its context for timer_service()" in said

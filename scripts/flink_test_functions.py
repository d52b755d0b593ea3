"""The functions that Flink's test programs use, written in Python after what their notes say."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

from funken import Row, RowKind
from funken.table.catalog import CatalogFunction, CatalogModel, TableColumn
from funken.table.changelog import ChangelogMode
from funken.table.models import register_provider
from funken.table.process_functions import ProcessTableFunction, scalar_argument, table_argument
from funken.table.types import parse_type
from funken.table.udf import (
    AggregateFunction,
    AsyncScalarFunction,
    ScalarFunction,
    TableFunction,
    udaf,
    udf,
    udtf,
)
from funken.table.values import java_row, java_text

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone
TIMESTAMP = "TIMESTAMP(3)"


def millis_of(moment: datetime.datetime) -> int:
    """Return the milliseconds of a time without a zone."""
    return (moment - EPOCH) // datetime.timedelta(milliseconds=1)


# ---- scalar functions


def plus_one(number: int) -> int:
    """Return the next number."""
    return number + 1


def joined(a: Any, b: Any, c: Any) -> str:
    """Return three values as text."""
    return f"{java_text(a)} and {java_text(b)} and {'null' if c is None else millis_of(c)}"


def with_product(text: str, *numbers: int) -> str:
    """Return a text and a product."""
    product = 1
    for number in numbers:
        product *= number
    return f"{text}{product}"


class Opened(ScalarFunction):
    """A function that has to be opened."""

    ready = False

    def open(self, function_context: Any) -> None:
        """Open it."""
        self.ready = True

    def check(self) -> None:
        """Refuse to work if it is not open."""
        if not self.ready:
            raise RuntimeError("Open was not called")


class Dollar(Opened):
    """Puts a dollar in front."""

    def eval(self, text: str) -> str:
        """Return the text behind a dollar."""
        self.check()
        return f"${text}"


class Earlier(Opened):
    """Subtracts milliseconds."""

    def eval(self, moment: Any, offset: Any) -> Any:
        """Return the earlier time."""
        self.check()
        return None if moment is None or offset is None else moment - datetime.timedelta(milliseconds=offset)


class JavaRandom:
    """``java.util.Random``."""

    def __init__(self, seed: int) -> None:
        self._seed = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def next_int(self) -> int:
        """Return the next number of 32 bits."""
        self._seed = (self._seed * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        number = self._seed >> 16
        return number - (1 << 32) if number >= 1 << 31 else number


class Random(ScalarFunction):
    """Numbers of Java's generator."""

    def __init__(self) -> None:
        self._random = JavaRandom(42)

    def is_deterministic(self) -> bool:
        """It is not."""
        return False

    def eval(self, *args: Any) -> Any:
        """Return the next number, added to the argument."""
        number = self._random.next_int()
        if not args:
            return number
        if isinstance(args[0], str):
            return f"{args[0]}-{number}"
        return (args[0] + number + (1 << 31)) % (1 << 32) - (1 << 31)


def _random_type(types: Any) -> Any:
    return "STRING" if types and "CHAR" in types[0].root else "INT NOT NULL"


class Awaited(AsyncScalarFunction):
    """A scalar function, awaited."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def open(self, function_context: Any) -> None:
        """Open the function."""
        if hasattr(self._function, "open"):
            self._function.open(function_context)

    async def eval(self, *args: Any) -> Any:
        """Return its result, later."""
        await asyncio.sleep(0)
        return getattr(self._function, "eval", self._function)(*args)


class TwosFail(AsyncScalarFunction):
    """Fails for the first 2."""

    failed = False

    async def eval(self, number: int) -> int:
        """Return the number."""
        if number == 2 and not self.failed:
            self.failed = True
            raise RuntimeError("2 fails")
        return number


class Failing(AsyncScalarFunction):
    """Fails always."""

    async def eval(self, *args: Any) -> Any:
        """Fail."""
        raise RuntimeError("Error")


# ---- table functions


def parts_at_hash(text: str | None, prefix: str = "") -> Any:
    """Return the parts of a text between hashes."""
    if text is not None and "#" in text:
        for part in text.split("#"):
            yield f"{prefix}{part}"


def split_text(*args: Any) -> Any:
    """Return the parts of a text."""
    if not args:
        yield from ("a", "b", "c")
        return
    text, separators, start = (*args, *(",", 0)[len(args) - 1 :])[:3]
    if text is None:
        return
    if isinstance(text, bytes):
        text = text.decode()
    for separator in separators[1:]:
        text = text.replace(separator, separators[0])
    yield from [part for part in text.split(separators[0]) if part][start:]


class FailsOnce(TableFunction):
    """Fails for the first text; the next attempt succeeds."""

    failed = False

    async def eval(self, text: str, prefix: str) -> Any:
        """Return the parts of a text."""
        if text == "hello#world" and not self.failed:
            self.failed = True
            raise RuntimeError("fails once")
        return list(parts_at_hash(text, prefix))


# ---- aggregate functions


class WeightedAverage(AggregateFunction):
    """A mean of integers with weights."""

    def create_accumulator(self) -> list[int]:
        """Return sums of nothing."""
        return [0, 0]

    def accumulate(self, accumulator: list[int], value: Any, weight: Any, *more: Any) -> None:
        """Add a value."""
        if more:
            value = value + int(more[1])
        accumulator[0] += value * weight
        accumulator[1] += weight

    def merge(self, accumulator: list[int], accumulators: Any) -> None:
        """Add sums."""
        for one in accumulators:
            accumulator[0] += one[0]
            accumulator[1] += one[1]

    def get_value(self, accumulator: list[int]) -> int | None:
        """Return the mean, cut off."""
        total, weights = accumulator
        if not weights:
            return None
        return abs(total) // abs(weights) * (1 if (total < 0) == (weights < 0) else -1)


class ConcatDistinct(AggregateFunction):
    """Joins texts, each once."""

    def create_accumulator(self) -> list[str]:
        """Return no texts."""
        return []

    def accumulate(self, accumulator: list[str], text: Any) -> None:
        """Add a text."""
        if text is not None and text not in accumulator:
            accumulator.append(text)

    def merge(self, accumulator: list[str], accumulators: Any) -> None:
        """Add texts."""
        for one in accumulators:
            for text in one:
                self.accumulate(accumulator, text)

    def get_value(self, accumulator: list[str]) -> str | None:
        """Return the texts."""
        return "|".join(accumulator) or None


class LargerThanCount(AggregateFunction):
    """Counts the rows whose first value is above the second."""

    def create_accumulator(self) -> list[int]:
        """Return zero."""
        return [0]

    def accumulate(self, accumulator: list[int], a: int, b: int) -> None:
        """Count a row."""
        accumulator[0] += a > b

    def retract(self, accumulator: list[int], a: int, b: int) -> None:
        """Take a row back."""
        accumulator[0] -= a > b

    def get_value(self, accumulator: list[int]) -> int:
        """Return the count."""
        return accumulator[0]


class Sum(AggregateFunction):
    """Adds what a function gives for the arguments."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def create_accumulator(self) -> list[int]:
        """Return zero."""
        return [0]

    def accumulate(self, accumulator: list[int], *args: Any) -> None:
        """Add a row."""
        accumulator[0] += self._of(*args)

    def get_value(self, accumulator: list[int]) -> int:
        """Return the sum."""
        return accumulator[0]


def _sum_of_all(*numbers: Any) -> int:
    return sum(number for number in numbers if number is not None)


def _cardinality(bitmap: Any) -> int:
    return 0 if bitmap is None else len(bitmap)


def _of_variant(variant: Any) -> int:
    if variant is None:
        return 0
    found = dict(variant.value).get("k") if variant.type == "OBJECT" else None
    return int(found.value or 0) if found is not None else 0


# ---- process table functions


def out(*values: Any) -> tuple[str]:
    """Return the column ``out`` of values."""
    return (f"{{{', '.join(java_row(value) if isinstance(value, Row) else java_text(value) for value in values)}}}",)


class Printing(ProcessTableFunction):
    """The base of functions that print their arguments."""

    result_type = "ROW<`out` STRING>"
    order: tuple[str, ...] = ()

    def eval(self, *args: Any, **arguments: Any) -> Any:
        """Print the arguments."""
        yield out(*(arguments.get(name) for name in self.order or [one.name for one in self.arguments]))


def printing(*arguments: Any, order: tuple[str, ...] = ()) -> type[Printing]:
    """Return a class that prints arguments."""
    return type("PrintingFunction", (Printing,), {"arguments": arguments, "order": order})


class User:
    """Shown as Java shows it."""

    def __init__(self, row: Any, name: str = "User") -> None:
        self._row, self._name = row, name

    def __str__(self) -> str:
        return f"{self._name}(s='{java_text(self._row[0])}', i={java_text(self._row[1])})"


class Users(Printing):
    """Prints rows as users."""

    arguments = (table_argument("u", "set"), scalar_argument("i", "INT"))

    def eval(self, ctx: Any, u: Any, i: Any) -> Any:
        """Print the arguments."""
        yield out(User(u), i)


class TwoUsers(Printing):
    """Prints a row and a constant as users."""

    arguments = (table_argument("input", "row"), scalar_argument("scalar"))

    def eval(self, ctx: Any, input: Any, scalar: Any) -> Any:
        """Print the arguments."""
        yield out(User(input), User(scalar))


class Duration(Printing):
    """Prints an interval."""

    arguments = (scalar_argument("d"),)


class Period(Printing):
    """Prints an interval of months."""

    arguments = (scalar_argument("p"),)

    def eval(self, ctx: Any, p: Any) -> Any:
        """Print the argument."""
        years, months = divmod(int(p), 12)
        yield out("P" + (f"{years}Y" if years else "") + (f"{months}M" if months else ""))


def mode_name(mode: ChangelogMode) -> str:
    """Return what Flink's test calls a mode."""
    deletes = mode.contains(RowKind.DELETE)
    kind = (
        "retract"
        if mode.contains(RowKind.UPDATE_BEFORE)
        else "upsert"
        if mode.contains(RowKind.UPDATE_AFTER)
        else "append"
    )
    if not deletes:
        return f"{kind}-no-delete"
    if kind == "retract":
        return kind
    return f"{kind}-{'partial' if mode.key_only_deletes else 'full'}-delete"


class Updating(Printing):
    """Prints rows with the mode of the table."""

    arguments = (table_argument("r", "set", "optional_partition_by", "updates"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print the row."""
        yield out(r, mode_name(ctx.table_semantics("r").changelog_mode))


class UpdatingUpsert(ProcessTableFunction):
    """Gives rows with the kinds of its table."""

    arguments = (table_argument("r", "set", "updates"),)
    result_type = "ROW<name STRING, `count` BIGINT, mode STRING>"

    def changelog_mode(self, tables: Any, requested: Any) -> ChangelogMode:
        """Return upserts."""
        return ChangelogMode.upsert(requested.key_only_deletes)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Return the row."""
        yield Row.of_kind(r.get_row_kind(), r[0], r[1], mode_name(ctx.changelog_mode))


class InvalidKind(Printing):
    """Deletes, although it may not."""

    arguments = (table_argument("r", "row"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Delete."""
        yield Row.of_kind(RowKind.DELETE, "invalid")


class Atomic(ProcessTableFunction):
    """Gives a column as a single value."""

    arguments = (table_argument("r", "set"),)
    result_type = "INT"

    def eval(self, ctx: Any, r: Any) -> Any:
        """Return the value."""
        yield r[1]


class PojoState(Printing):
    """Keeps a score."""

    arguments = (table_argument("r", "set"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print and change the score."""
        state = ctx.value_state("s")
        score = list(state.value() or (None, None))
        yield out(User(score, "Score"), r)
        if r[0] == "Bob":
            score[0] = r[0]
        score[1] = 0 if score[1] is None else score[1] + 1
        state.update(score)


class MultiState(Printing):
    """Keeps two rows."""

    arguments = (table_argument("r", "set"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print and change the rows."""
        first, second = ctx.value_state("s1"), ctx.value_state("s2")
        yield out(Row(first.value()), Row(second.value()), r)
        number = first.value() or 0
        first.update(number + 1)
        second.update(str(number))


class ClearState(Printing):
    """Keeps a score until it is cleared."""

    arguments = (table_argument("r", "set"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print and change the score."""
        state = ctx.value_state("s")
        score = list(state.value() or (None, 99))
        yield out(User(score, "ScoreWithDefaults"), r)
        if r[0] == "Bob" and score[1] == 100:
            state.clear()
        else:
            state.update([score[0], score[1] + 1])


class Descriptors(Printing):
    """Prints lists of columns."""

    arguments = (
        scalar_argument("columnList1"),
        scalar_argument("columnList2", optional=True),
        scalar_argument("columnList3"),
    )

    def eval(self, ctx: Any, columnList1: Any = None, columnList2: Any = None, columnList3: Any = None) -> Any:
        """Print the lists."""
        lists = (columnList1, columnList2, columnList3)
        yield out(*(None if one is None else f"({', '.join(f'`{name}`' for name in one)})" for one in lists))


def instant(millis: int | None) -> str:
    """Return a time as Java's Instant."""
    if millis is not None and millis > 1 << 50:
        return str(millis)
    return (
        "null"
        if millis is None
        else java_text((EPOCH + datetime.timedelta(milliseconds=millis)).replace(tzinfo=datetime.UTC))
    )


def local(millis: int | None) -> str:
    """Return a time as Java's LocalDateTime."""
    return "null" if millis is None else java_text(EPOCH + datetime.timedelta(milliseconds=millis))


class TimeConversions(Printing):
    """Prints times."""

    arguments = (table_argument("r", "row", "on_time"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print the time and the watermark."""
        shown = [
            f"{what} (Long: {java_text(millis)}, Instant: {instant(millis)}, LocalDateTime: {local(millis)})"
            for what, millis in (("Time", ctx.time), ("Watermark", ctx.current_watermark))
        ]
        yield out(*shown)


class Timed(Printing):
    """The base of functions with timers."""

    arguments = (table_argument("r", "set", "on_time"),)

    def row(self, ctx: Any, r: Any) -> tuple[str]:
        """Print a row."""
        return out(
            f"Processing input row {java_row(r)} at time {java_text(ctx.time)} watermark {java_text(ctx.current_watermark)}"
        )

    def register(self, ctx: Any, name: Any, time: int) -> tuple[str]:
        """Register a timer, and print it."""
        what = f"timer {name}" if name is not None else "timer"
        text = (
            f"Registering {what} for {time} at time {java_text(ctx.time)} watermark {java_text(ctx.current_watermark)}"
        )
        if name is None:
            ctx.register_on_time(time)
        else:
            ctx.register_on_time(name, time)
        return out(text)

    def fired(self, ctx: Any) -> tuple[str]:
        """Print a timer."""
        return out(
            f"Timer {java_text(ctx.timer)} fired at time {java_text(ctx.time)} watermark {java_text(ctx.current_watermark)}"
        )


class ChainedSending(Timed):
    """Registers a timer for each row."""

    arguments = (table_argument("r", "set", "optional_partition_by", "on_time"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print the row."""
        yield self.row(ctx, r)
        yield self.register(ctx, "t", ctx.time + 1)

    def on_timer(self, ctx: Any) -> Any:
        """Print the timer."""
        yield self.fired(ctx)
        yield out(ctx.time)


class ChainedReceiving(Timed):
    """Prints rows."""

    arguments = (table_argument("r", "set", "optional_partition_by", "on_time"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print the row."""
        yield self.row(ctx, r)


class NamedTimers(Timed):
    """Registers several timers."""

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print the row."""
        yield self.row(ctx, r)
        if ctx.time == 0:
            for number in (1, 2, 3):
                yield self.register(ctx, f"timeout{number}", ctx.time + number)
            for number in (4, 5):
                yield self.register(ctx, f"timeout{number}", 2**63 - 1)

    def on_timer(self, ctx: Any) -> Any:
        """Print the timer."""
        yield self.fired(ctx)
        if ctx.timer == "timeout1":
            yield self.register(ctx, "timeout2", ctx.time + 4)
            yield out(f"Clearing timer timeout3 at time {ctx.time} watermark {java_text(ctx.current_watermark)}")
            ctx.clear_timer("timeout3")
        if ctx.timer == "timeout2":
            yield out(f"Clearing all timers at time {ctx.time} watermark {java_text(ctx.current_watermark)}")
            ctx.clear_all_timers()


class LateTimers(Timed):
    """Registers timers that are due."""

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print the row."""
        yield self.row(ctx, r)
        if r[0] == "Bob":
            yield self.register(ctx, "bob", 0)
            yield self.register(ctx, None, 0)
        else:
            yield self.register(ctx, "alice", 1)

    def on_timer(self, ctx: Any) -> Any:
        """Print the timer."""
        yield self.fired(ctx)
        if ctx.timer == "alice":
            yield self.register(ctx, "alice-again", 0)


class OptionalPartitionTimed(Timed):
    """Registers a timer at first."""

    arguments = (table_argument("r", "set", "optional_partition_by", "on_time"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print the row."""
        yield self.row(ctx, r)
        if ctx.time == 0:
            yield self.register(ctx, "t", ctx.time + 1)

    def on_timer(self, ctx: Any) -> Any:
        """Print the timer."""
        yield self.fired(ctx)
        if ctx.timer == "t":
            yield self.register(ctx, "again", ctx.time + 1)


class OptionalTimed(Timed):
    """Registers a timer behind the watermark."""

    arguments = (table_argument("r", "set"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print the row."""
        yield self.row(ctx, r)
        watermark = ctx.current_watermark
        yield self.register(ctx, "t", 1 if watermark is None or watermark < 0 else watermark + 1)

    def on_timer(self, ctx: Any) -> Any:
        """Print the timer."""
        yield self.fired(ctx)


class PassThroughTimed(Timed):
    """Registers a timer, although it may not."""

    arguments = (table_argument("r", "set", "pass_columns", "on_time"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Register a timer."""
        yield self.register(ctx, "t", 0)


class ListState(Printing):
    """Keeps a list."""

    arguments = (table_argument("r", "set", "optional_partition_by"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print and change the list."""
        state = ctx.list_state("s")
        kept = list(state.get() or ())
        yield out(kept, "KeyedStateListView", r)
        if len(kept) == 2:
            ctx.clear_state("s")
        else:
            state.add(str(len(kept)))


class MapState(Printing):
    """Keeps a map."""

    arguments = (table_argument("r", "set", "optional_partition_by"),)
    has_null = True

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print and change the map."""
        state = ctx.map_state("s")
        entries = sorted((key, value) for key, value in state.items())
        shown = "{" + ", ".join(f"{key}={java_text(value)}" for key, value in entries) + "}"
        yield out(shown, "KeyedStateMapViewWithKeysNotNull", r)
        count = state.get(r[0]) or 1
        if count == 2:
            ctx.clear_state("s")
            return
        state.put(f"old{r[0]}", count)
        state.put(r[0], count + 1)
        if self.has_null:
            state.put("nullValue", None)


class NonNullMapState(MapState):
    """Keeps a map without NULL."""

    has_null = False


class UpdatingJoin(ProcessTableFunction):
    """Joins two tables that change."""

    arguments = (table_argument("scoreTable", "set", "updates"), table_argument("cityTable", "set", "updates"))
    result_type = "ROW<`out` STRING>"

    def changelog_mode(self, tables: Any, requested: Any) -> ChangelogMode:
        """Return upserts."""
        return ChangelogMode.upsert(True)

    def eval(self, ctx: Any, scoreTable: Any, cityTable: Any) -> Any:
        """Join a row."""
        score, city = ctx.value_state("score"), ctx.value_state("city")
        matched = score.value() is not None and city.value() is not None
        row, state = (scoreTable, score) if scoreTable is not None else (cityTable, city)
        if row.get_row_kind() is RowKind.DELETE:
            state.update(None)
            if matched:
                yield Row.of_kind(RowKind.DELETE, None)
            return
        state.update(row[1])
        if score.value() is not None and city.value() is not None:
            kind = RowKind.UPDATE_AFTER if matched else RowKind.INSERT
            yield Row.of_kind(kind, f"score {score.value()} in city {city.value()}")


class Ordered(Printing):
    """Keeps rows in their order."""

    arguments = (table_argument("r", "set", "optional_partition_by"),)

    def eval(self, ctx: Any, r: Any) -> Any:
        """Print the rows."""
        state = ctx.value_state("order")
        kept = [*(state.value() or ()), java_row(r)]
        state.update(kept)
        mark = instant(ctx.current_watermark)
        yield out(mark, mark, instant(ctx.time), kept)


class MultiOrdered(Printing):
    """Keeps rows of two tables in their order."""

    arguments = (table_argument("in1", "set"), table_argument("in2", "set"))

    def eval(self, ctx: Any, in1: Any, in2: Any) -> Any:
        """Print the rows of the side."""
        name, row = ("in1", in1) if in1 is not None else ("in2", in2)
        state = ctx.value_state(f"order-{name}")
        kept = [*(state.value() or ()), java_row(row)]
        state.update(kept)
        yield out(name, instant(ctx.current_watermark), instant(ctx.time), kept)


_R_SET, _R_ROW, _I = table_argument("r", "set"), table_argument("r", "row"), scalar_argument("i", "INT")
_OPTIONAL = table_argument("r", "set", "optional_partition_by")
_IN2 = table_argument("in2", "set", "optional_partition_by")
PROCESS: dict[str, Any] = {
    "ScalarArgsFunction": printing(_I, scalar_argument("b", "BOOLEAN")),
    "RowSemanticTableFunction": printing(_R_ROW, _I),
    "SetSemanticTableFunction": printing(_R_SET, _I),
    "TypedSetSemanticTableFunction": Users,
    "TypedRowSemanticTableFunction": type("RowUsers", (Users,), {"arguments": (table_argument("u", "row"), _I)}),
    "PojoArgsFunction": TwoUsers,
    "IntervalDayArgFunction": Duration,
    "IntervalYearArgFunction": Period,
    "RowSemanticTablePassThroughFunction": printing(table_argument("r", "row", "pass_columns"), _I),
    "SetSemanticTableUpdatingArgFunction": Updating,
    "SetSemanticTableRetractArgFunction": printing(table_argument("r", "set", "updates", "update_before")),
    "SetSemanticTableFullDeletesArgFunction": printing(table_argument("r", "set", "updates", "full_deletes")),
    "UpdatingUpsertFunction": UpdatingUpsert,
    "InvalidRowKindFunction": InvalidKind,
    "SetSemanticTableOptionalPartitionFunction": printing(_OPTIONAL, _I),
    "AtomicTypeWrappingFunction": Atomic,
    "PojoStateFunction": PojoState,
    "MultiStateFunction": MultiState,
    "ClearStateFunction": ClearState,
    "DescriptorFunction": Descriptors,
    "TimeConversionsFunction": TimeConversions,
    "NamedTimersFunction": NamedTimers,
    "LateTimersFunction": LateTimers,
    "RequiredTimeFunction": printing(table_argument("r", "row", "on_time")),
    "OptionalPartitionOnTimeFunction": OptionalPartitionTimed,
    "OptionalOnTimeFunction": OptionalTimed,
    "InvalidPassThroughTimersFunction": PassThroughTimed,
    "ListStateFunction": ListState,
    "MapStateFunction": MapState,
    "NonNullMapStateFunction": NonNullMapState,
    "MultiInputFunction": printing(table_argument("in1", "set"), _IN2),
    "MultiInputWithScalarArgsFunction": printing(
        scalar_argument("m", "MAP<STRING, STRING>"), table_argument("in1", "set"), _I, _IN2,
        scalar_argument("r", "ROW<b BOOLEAN, s STRING>"), order=("in1", "in2", "m", "i", "r"),
    ),
    "UpdatingJoinFunction": UpdatingJoin,
    "OrderByFunction": Ordered,
    "MultiInputOrderByFunction": MultiOrdered,
    "ChainedSendingFunction": ChainedSending,
    "ChainedReceivingFunction": ChainedReceiving,
}  # fmt: skip


def _scalars() -> dict[str, Any]:
    return {
        "JavaFunc0": udf(plus_one, result_type="BIGINT NOT NULL"),
        "JavaFunc1": udf(joined, result_type="STRING"),
        "JavaFunc2": udf(with_product, result_type="STRING"),
        "JavaFunc5": udf(Earlier(), result_type=TIMESTAMP),
        "UdfWithOpen": udf(Dollar(), result_type="STRING"),
        "NonDeterministicUdf": udf(Random(), result_type=_random_type),
        "AsyncJavaFunc0": udf(Awaited(plus_one), result_type="BIGINT"),
        "AsyncJavaFunc1": udf(Awaited(joined), result_type="STRING"),
        "AsyncJavaFunc2": udf(Awaited(with_product), result_type="STRING"),
        "AsyncJavaFunc5": udf(Awaited(Earlier()), result_type=TIMESTAMP),
        "AsyncUdfWithOpen": udf(Awaited(Dollar()), result_type="STRING"),
        "TwosFailFunction": udf(TwosFail(), result_type="INT"),
        "MyUdf": udf(lambda bitmap: None if bitmap is None else len(bitmap), result_type="INT", name="MyUdf"),
        "PojoCreatingFunction": udf(lambda s, i: (s, i), result_type="ROW<s STRING, i INT>", name="PojoCreating"),
        "TableFunc1": udtf(parts_at_hash, result_types="STRING"),
        "StringSplit": udtf(split_text, result_types="STRING"),
        "AsyncStringSplit": udtf(split_text, result_types="STRING"),
        "FailureThenSucceedSplit": udtf(FailsOnce(), result_types="STRING"),
        "MyUdtf": udtf(lambda bitmap: sorted(bitmap or ()), result_types="INT", name="MyUdtf"),
        "WeightedAvg": udaf(WeightedAverage(), result_type="BIGINT"),
        "WeightedAvgWithMerge": udaf(WeightedAverage(), result_type="BIGINT"),
        "ConcatDistinctAggFunction": udaf(ConcatDistinct(), result_type="STRING"),
        "LargerThanCount": udaf(LargerThanCount(), result_type="BIGINT"),
        "VarSum1AggFunction": udaf(Sum(_sum_of_all), result_type="BIGINT"),
        "VarSum2AggFunction": udaf(Sum(lambda *numbers: 0), result_type="BIGINT"),
        "MyUdaf": udaf(Sum(_cardinality), result_type="BIGINT"),
        "MyAggFunc": udaf(Sum(_of_variant), result_type="BIGINT"),
    }


def register(tables: Any, function: dict[str, Any]) -> None:
    """Register the function that a program names."""
    short = re_short(function["class"])
    if short in PROCESS:
        made: Any = PROCESS[short]()
    else:
        made = _scalars().get(short)
        if made is None:
            raise NotImplementedError(f"the runner has no function {short}")
    if function.get("behavior") == "SYSTEM":
        tables.create_temporary_system_function(function["name"], made)
    else:
        tables.create_temporary_function(f"`{function['name']}`", made)


def re_short(name: str) -> str:
    """Return the short name of a class."""
    return name.rpartition("$")[2].rpartition(".")[2]


class Lookup:
    """A model that is a table from rows in to rows out."""

    def __init__(self, data: list[dict[str, Any]]) -> None:
        self._rows = {tuple(one["input"]["fields"]): [tuple(row["fields"]) for row in one["output"]] for one in data}

    def __call__(self, *values: Any) -> Any:
        """Return the rows out."""
        return list(self._rows.get(values, []))


def register_model(tables: Any, model: dict[str, Any]) -> None:
    """Register the model that a program names: a table from rows in to rows out."""
    columns = {
        part: tuple(
            TableColumn(text.split(" ", 1)[0].strip("`"), parse_type(text.split(" ", 1)[1])) for text in model[part]
        )
        for part in ("input_schema", "output_schema")
    }
    options = {**model["options"], "provider": f"values {model['name']}"}
    entry = CatalogModel(columns["input_schema"], columns["output_schema"], tuple(options.items()))
    register_provider(options["provider"], lambda _: Lookup(model["data"]))
    tables.catalogs.create([model["name"]], entry, temporary=True)


__all__ = ["CatalogFunction", "register", "register_model"]

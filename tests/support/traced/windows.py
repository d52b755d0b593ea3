"""Random windows, and random functions over whole blocks: columns give what records give, and their snapshots are alike.

A program is planned twice, with and without columns, and both operators are given the same blocks, watermarks and restores. What
they emit, in order, and what they keep are compared.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby
from typing import Any

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.columnar.vectorized.functions import BatchFormat, vectorized
from funken.expr.types import INT, NUMBER, Atomic, Composite, ListOf, Tuple, has_documents, types_in
from funken.testing.harness import OperatorHarness
from funken.testing.simulated import local
from tests.support.traced.functions import Difference
from tests.support.traced.records import SHAPES, random_records

_SPACE: dict[str, Any] = {}
exec("from funken import *", _SPACE)
_ASSIGNERS = (
    "window(TumblingEventTimeWindows.of(10))",
    "window(SlidingEventTimeWindows.of(10, 4))",
    "count_window(3)",
    "count_window(1)",
    "window(CountTumblingWindowAssigner(2))",
    "count_window(3, 2)",
    "count_window(2, 5)",
    "count_window(4, 1)",
    "window(EventTimeSessionWindows.with_gap(5))",
    "window(EventTimeSessionWindows.with_gap(1))",
    "window(EventTimeSessionWindows.with_dynamic_gap(lambda record: abs(record[1]) % 9 + 1))",
)
_KEYS = ("record[0]", "record[0]", "(record[0], record[1])", "(str(record[0]), record[0])", "(record[1],)")
_FOLDS = {
    "count": ("0", "{so_far} + 1", "{one} + {other}"),
    "sum": ("0", "{so_far} + value[1]", "{one} + {other}"),
    "least": ("10**9", "min({so_far}, value[1])", "min({one}, {other})"),
    "greatest": ("-10**9", "max({so_far}, value[2])", "max({one}, {other})"),
    "total": ("0.0", "{so_far} + value[2] / 4", "{one} + {other}"),
    "last": ("0", "value[1]", "{other}"),
    "seven": ("7", "{so_far}", "{one}"),
}
"""By name: how a field of an accumulator begins, what a record makes of it, and how two of them are merged."""
_FUNCTIONS = (
    "lambda key, window, results: [(key, each) for each in results]",
    "lambda key, window, results: [(window.start, each, window.end - window.start, window) for each in results]",
    "lambda key, window, results: [window.max_timestamp(), 1 // (window.end % 9)]",
    "lambda key, window, results: (key, next(iter(results))) if window.start % 3 else None",
    "Function()",
    "Constant()",
)
"""Window functions; a count window has no bounds."""
_CLASSES = """
class Function(ProcessWindowFunction):
    def process(self, key, context, elements):
        window, (result,) = context.window(), elements
        if window.end % 4:
            yield key, window.end
        for each in elements:
            yield result, context.window().start
class Constant(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [(7, each, key) for each in elements]
"""
_OF_ALL = (
    "key, len(records), sum(r[1] for r in records)",
    "key, records[0], records[-1][2]",
    "len(list(records)), next(iter(records))[1]",
    "sorted(set(r[1] for r in records)), len({(r[0], r[2] > 0) for r in records})",
    "max(records, key=lambda r: (r[1], -r[2])), min(records, key=lambda r: r[2])",
    "[r[1] for r in sorted(records, key=lambda r: -r[1])[:2]], any(r[2] > 5 for r in records)",
    "sum(r[1] for r in records) / len(records), 1 // (len(records) - 3)",
    "records",
)
"""What is said of all records of a window."""
_ALL = """
class Every(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        for record in elements:
            if record[1] > 0:
                yield record[1], window.end
        yield len(elements), window.start
class Loops(ProcessWindowFunction):
    def process(self, key, context, elements):
        count, most, large = 0, -100, []
        for record in elements:
            count += 1
            most = max(most, record[2])
            if record[1] > 3:
                large.append(record[2] + record[0])
        if count > 1:
            yield key, count, most, large
"""
_EXTREMES = (
    "lambda a, b: max(a, b, key=lambda r: (r[1], -r[2]))",
    "lambda a, b: min(a, b, key=lambda r: (-r[1], r[0], r[2]))",
    "lambda a, b: b if (b[1], b[2]) < (a[1], a[2]) else a",
    "lambda a, b: a if a[2] >= b[2] else b",
)
"""Functions of a running reduce."""
_LISTS = (
    "        return [*so_far, value]",
    "        return so_far + [value]",
    "        if not so_far or {new} {better} {kept}:\n            return [value]\n"
    "        return [*so_far, value] if {new} == {kept} else so_far",
    "        if so_far and {new} == {kept}:\n            return so_far + [value]\n"
    "        return so_far if so_far and {kept} {better} {new} else [value]",
    "        if len(so_far) == 0:\n            return [value]\n        return [value] if {new} {better}= {kept} else so_far",
    "        return [value] if not so_far or {new} {better} {kept} else so_far",
)
"""What becomes of an accumulator that is a list of records."""
_OF_LISTS = (
    "result",
    "len(result)",
    "result[0]",
    "[r[1] for r in result]",
    "sum(r[2] for r in result)",
    "(len(result), result)",
)
_REDUCES = (
    ("a[0]", "b[0]"),
    ("a[1] + b[1]", "min(a[1], b[1])", "max(a[1], b[1])", "b[1]", "a[1]"),
    ("a[2] + b[2]", "a[2]", "b[2] * 2"),
)


class WindowFuzzer:
    """Makes cases, and tells those in which columns and records differ; ``counts`` says what became of all of them."""

    def __init__(self, seed: int = 0) -> None:
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._seed = seed

    def run(self, case: int) -> Difference | None:
        """Run a case; return what is wrong."""
        dice = random.Random(f"window/{self._seed}/{case}")
        source = self._source(dice) + f"\nkey = lambda record: {dice.choice(_KEYS)}"
        space = dict(_SPACE)
        exec(source, space)
        try:
            fact = self._compared(space["build"], space["key"], dice)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            fact = f"{type(error).__name__}: {error}"
        return None if fact is None else Difference(case, source, fact)

    @staticmethod
    def _source(dice: random.Random) -> str:
        window = dice.choice(_ASSIGNERS)
        if dice.random() < 0.1:
            return f"build = lambda keyed: keyed.reduce({dice.choice(_EXTREMES)})"
        if dice.random() < 0.15:
            return WindowFuzzer._of_all(dice, window)
        of_any = [each for each in _FUNCTIONS if "window." not in each and each != "Function()"]
        functions = of_any if "ount" in window else _FUNCTIONS
        function = ", " + dice.choice(functions) if dice.random() < 0.5 else ""
        if dice.random() < 0.4:
            fields = ", ".join(map(dice.choice, _REDUCES))
            return f"{_CLASSES}\nbuild = lambda keyed: keyed.{window}.reduce(lambda a, b: ({fields}){function})"
        if dice.random() < 0.25:
            return WindowFuzzer._of_lists(dice, dice.choice((window, *_ASSIGNERS[:2])), function)
        names = dice.sample(sorted(_FOLDS), dice.randrange(1, 4))
        named = dice.random() < 0.5
        at = {name: repr(name) if named else str(place) for place, name in enumerate(names)}

        def made(part: int) -> str:
            filled = {
                name: _FOLDS[name][part].format(
                    so_far=f"so_far[{at[name]}]", one=f"one[{at[name]}]", other=f"other[{at[name]}]"
                )
                for name in names
            }
            if named:
                return "{" + ", ".join(f"{name!r}: {each}" for name, each in filled.items()) + "}"
            return f"({', '.join(filled.values())},)"

        first = f"result[{at[names[0]]}]"
        result = dice.choice(("result", f"({first}, str({first}))", f"{first} / 2", f"1 / {first}"))
        return "\n".join([
            _CLASSES,
            "class Aggregate(AggregateFunction):",
            f"    def create_accumulator(self):\n        return {made(0)}",
            f"    def add(self, value, so_far):\n        return {made(1)}",
            f"    def get_result(self, result):\n        return {result}",
            f"    def merge(self, one, other):\n        return {made(2)}",
            f"build = lambda keyed: keyed.{window}.aggregate(Aggregate(){function})",
        ])  # fmt: skip

    @staticmethod
    def _of_all(dice: random.Random, window: str) -> str:
        function, counts = dice.choice(("Every()", "Loops()", *[""] * 4)), "ount" in window
        if function:
            classes = _ALL.replace("window.end", "key").replace("window.start", "key") if counts else _ALL
            return f"{classes}\nbuild = lambda keyed: keyed.{window}.process({function})"
        end = "key" if counts else "window.end"
        said = dice.choice(_OF_ALL)
        return f"build = lambda keyed: keyed.{window}.apply(lambda key, window, records: [({said}, {end})])"

    @staticmethod
    def _of_lists(dice: random.Random, window: str, function: str) -> str:
        by = dice.choice(("{}[1]", "-{}[2]", "self.by({})", "{}[1] * self.factor + {}[2]"))
        added = dice.choice(_LISTS)
        texts = (
            ("{new}", by.replace("{}", "value")), ("{kept}", by.replace("{}", "so_far[0]")), ("{better}", dice.choice("<>")),
        )  # fmt: skip
        for place, text in texts:
            added = added.replace(place, text)
        return "\n".join([
            _CLASSES,
            "class Aggregate(AggregateFunction):",
            "    def __init__(self):\n        self.by, self.factor = (lambda record: record[1] // 2), 3",
            "    def create_accumulator(self):\n        return []",
            f"    def add(self, value, so_far):\n{added}",
            f"    def get_result(self, result):\n        return {dice.choice(_OF_LISTS)}",
            "    def merge(self, one, other):\n        return one + other",
            f"build = lambda keyed: keyed.{window}.aggregate(Aggregate(){function})",
        ])  # fmt: skip

    def _compared(self, build: Any, key: Any, dice: random.Random) -> str | None:
        specs: list[Any] = []
        for columns in (True, False):
            env = StreamExecutionEnvironment.create_local_environment(
                1, Configuration({"pipeline.vectorized": columns})
            )
            source = DataGeneratorSource(lambda i: (i, i, i), 1)
            build(env.from_source(source, WatermarkStrategy.no_watermarks()).key_by(key))
            plan = env.compile()
            node = plan.vertices[-1].nodes[-1]
            specs.append(node.spec)
            decided = plan.decided("columns", node.id)
            if columns and not (decided or "").startswith("vectorized"):
                self.counts["per record"] += 1
                self.refusals[str(decided)] += 1
                return None
        self.counts["columns"] += 1
        if getattr(specs[0], "given", None) is not None:
            self.counts["window functions"] += 1
        paths = [_Driven(spec) for spec in specs]
        watermark = -100
        for _ in range(dice.randrange(1, 8)):
            length = dice.randrange(1, 9)
            records = [(dice.randrange(3), _number(dice), _number(dice)) for _ in range(length)]
            stamps = [dice.randrange(max(0, watermark - 5), max(0, watermark) + 20) for _ in range(length)]
            if dice.random() < 0.5:
                stamps.sort()
            as_columns, restored = dice.random() < 0.8, dice.random() < 0.15
            watermark = max(watermark, dice.randrange(60)) if dice.random() < 0.5 else watermark
            for each in paths:
                each.step(records, stamps, as_columns and each is paths[0], restored, watermark)
            if paths[0].failed != paths[1].failed:
                return f"columns raise {paths[0].failed}, records {paths[1].failed}"
            if paths[0].failed is not None:
                return None
        return _differ(paths)


def _number(dice: random.Random) -> int:
    return dice.choice((0, 1, -1, 2**62)) if dice.random() < 0.05 else dice.randrange(-9, 10)


class _Driven:
    """One of the two operators."""

    def __init__(self, spec: Any) -> None:
        self._spec = spec
        self.harness = OperatorHarness(spec, keyed=True)
        self.results: list[str] = []
        self.failed: str | None = None
        self.restored = False

    def step(self, records: list[Any], stamps: list[int], as_columns: bool, restored: bool, watermark: int) -> None:
        """Give it a block and a watermark."""
        from funken.columnar.kernels.columns import columns_of

        try:
            if as_columns:
                self.harness.operator.process_block(columns_of(records, Tuple((INT, INT, INT)), stamps))
            else:
                self.harness.feed_block(records, stamps)
            if restored:
                self.results += self._after_restore(self.harness.output_with_timestamps)
                self.restored = True
                operator = self._spec.build()
                operator.current_watermark = self.harness.operator.current_watermark
                self.harness = OperatorHarness(operator, keyed=True, snapshots=[self.harness.snapshot()])
            self.harness.watermark(watermark)
        except ArithmeticError as error:
            self.failed = type(error).__name__

    def kept(self) -> list[str]:
        """Return the rows of its snapshot."""
        keyed = self.harness.snapshot()["keyed"]
        groups = {} if keyed is None else keyed.groups
        return sorted(
            f"{group} {name} {row!r}"
            for group, states in groups.items()
            for name, rows in states.items()
            for row in rows
        )

    def ended(self) -> list[str]:
        """Return all results, those of the end too."""
        try:
            self.harness.end_input()
        except ArithmeticError as error:
            return [type(error).__name__]
        return [*self.results, *self._after_restore(self.harness.output_with_timestamps)]

    def _after_restore(self, results: list[Any]) -> list[str]:
        """Return results; behind a restore those of one time sorted, for the order of keys is in no snapshot."""
        if not self.restored:
            return list(map(repr, results))
        runs = groupby(results, key=lambda result: result[1])
        return [each for _, run in runs for each in sorted(map(repr, run))]


def _differ(paths: list[_Driven]) -> str | None:
    one, other = (each.kept() for each in paths)
    if one != other:
        return f"columns keep {one}, records {other}"
    one, other = (each.ended() for each in paths)
    return None if one == other else f"columns give {one}, records {other}"


_WHOLE = [
    schema
    for schema, _ in SHAPES
    if not has_documents(schema)
    and not any(kind == NUMBER or isinstance(kind.required, ListOf) for kind in types_in(schema))
]
"""Schemas of records that somebody may be given whole."""


class BatchFuzzer:
    """Hands random records through a function over whole blocks, in each format: they stay what they are."""

    def __init__(self, seed: int = 0) -> None:
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._seed = seed

    def run(self, case: int) -> Difference | None:
        """Run a case; return what is wrong."""
        dice = random.Random(f"batch/{self._seed}/{case}")
        schema = dice.choice(_WHOLE)
        flat = isinstance(schema, Composite) and all(
            isinstance(each, Atomic) for each in schema
        )  # Arrow has no columns of tuples
        form = dice.choice([BatchFormat.NUMPY, BatchFormat.PANDAS, *([BatchFormat.ARROW] if flat else [])])
        records = random_records(dice, schema, dice.random() < 0.5)
        source = f"{form.value} {records!r}"
        from funken.columnar.kernels.columns import columns_of
        from funken.columnar.vectorized.results import argument_of, columns_made, columns_of_records

        try:
            for block in (columns_of(records, schema), columns_of_records(records)):
                made = columns_made(argument_of(block, form), schema, len(records)).to_list()
                if repr(made) != repr(records):
                    return Difference(case, source, f"become {made!r}")
            if not dice.randrange(20):
                there = local(records).map(vectorized(batch_format=form.value)(lambda block: block))
                if len(there.execute_and_collect(limit=100)) != len(records):
                    return Difference(case, source, "are not all there")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            return Difference(case, source, f"{type(error).__name__}: {error}")
        self.counts[form.value] += 1
        return None


__all__ = ["BatchFuzzer", "WindowFuzzer"]

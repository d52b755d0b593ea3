"""Random functions with keyed state, fed with random blocks: what columns give, and keep, is what the functions themselves do.

Operators on columns and on records are given the same blocks, as columns and as rows by turns, and begin again from their
snapshots.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from unittest.mock import patch

from funken.columnar.expressions import NotVectorizable
from funken.operators.process.one_input import KeyedProcess
from funken.operators.process.two_inputs import KeyedCoProcess
from funken.operators.user_functions import UserFunction
from funken.plan.columns.states import columnar_of_two, columnar_process
from funken.testing.harness import OperatorHarness
from funken.testing.traced_functions import Difference

_SPACE: dict[str, Any] = {}
exec("from funken import *", _SPACE)
_SCHEMA = ("int", "int", "str")
_KEYS = ("record[0]", "record[0]", "(record[0], record[2])", "f'k{record[0]}'")
_DECLARED = {
    "n": 'get_state(ValueStateDescriptor("n", default=0))',
    "m": 'get_state(ValueStateDescriptor("m"))',
    "text": 'get_state(ValueStateDescriptor("text"))',
    "pair": 'get_state(ValueStateDescriptor("pair"))',
    "last": 'get_state(ValueStateDescriptor("last"))',
    "best": 'get_state(ValueStateDescriptor("best"))',
    "high": 'get_reducing_state(ReducingStateDescriptor("high", {better}))',
    "early": 'get_state(ValueStateDescriptor("early", default=(0, 5, "m")))',
    "least": 'get_reducing_state(ReducingStateDescriptor("least", min))',
    "total": 'get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b))',
    "mean": 'get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))',
    "top": 'get_list_state(ListStateDescriptor("top"))',
    "f": 'get_state(ValueStateDescriptor("f"))',
    "items": 'get_list_state(ListStateDescriptor("items"))',
    "seen": 'get_map_state(MapStateDescriptor("seen"))',
}
_READS = {
    "n": ("n = self.n.value()",),
    "m": (
        "m = self.m.value() or 0",
        "m = self.m.value()\n        if m is None:\n            m = {int}",
        "m = self._of_m(value)",
    ),
    "text": (
        "text = self.text.value() or ''",
        "text = self.text.value()\n        text = value[2] if text is None else text",
    ),
    "pair": ("a, b = self.pair.value() or (0, '')",),
    "last": ("last = self.last.value()\n        before = value if last is None else last",),
    "best": ("best = self.best.value()",),
    "high": ("high = self.high.get()\n        size = 0 if high is None else high[1]",),
    "early": ("early = self.early.value()",),
    "least": ("least = self.least.get() or 0", "self.least.add(value[1])\n        least = self.least.get()"),
    "total": ("total = self.total.get()\n        total = 9 if total is None else total",),
    "mean": ("self.mean.add(value[1])\n        mean = self.mean.get()", "mean = self.mean.get() or 0"),
    "top": (
        "top = sorted([*self.top.get(), value[1]], reverse=True)[:3]",
        "top = sorted(self.top.get() + [value[1]], key=lambda n: (n % 3, -n))[:2]",
        "top = [*self.top.get(), value[1]][-2:]",
    ),
    "f": (
        "f = (self.f.value() or 0) + value[1] / 2",
        "f = (self.f.value() or 0.0) - value[1] * 0.25",
        "f = self.f.value()\n        f = value[1] / 4 if f is None else f + value[1]",
    ),
    "items": (
        "size = len(self.items.get())",
        "size = sum(n for n, _ in self.items)",
        "size = len([n for n, _ in self.items if n > value[1]])",
        "size = 1\n        for n, word in self.items:\n            yield (ctx.get_current_key(), n + value[1], len(word))",
        "size = 2",
    ),
    "seen": ("seen = self.seen.get({map_key}) or 0", "seen = int({map_key} in self.seen)"),
}
_INTS = {
    "n": ("n", "n"),
    "m": ("m",),
    "pair": ("a",),
    "last": ("before[1]", "before[0]"),
    "best": ("(0 if best is None else best[0])",),
    "high": ("size",),
    "early": ("early[1]", "len(early[2])"),
    "seen": ("seen",),
    "text": ("len(text)",),
    "items": ("size",),
    "f": ("int(f * 4)", "int(f > 1.5)"),
    "top": ("top[0]", "len(top)"),
    "least": ("least",),
    "total": ("total",),
    "mean": ("mean",),
}
_MEAN = [
    "class Mean(AggregateFunction):",
    "    def create_accumulator(self):",
    "        return 0, 0",
    "    def add(self, value, so_far):",
    "        return so_far[0] + 1, so_far[1] + value",
    "    def get_result(self, so_far):",
    "        return so_far[1] // so_far[0]",
]
_TOGGLE = """if last is None:
            self.last.update(value)
        else:
            self.last.clear()"""
_WRITES = {
    "n": (
        "self.n.update(n + {int})", "self.n.update(n + 1)", "self.n.clear()", "self.n.update({int})",
        "self.n.update(max(n, {int}))", "self.n.update(self.n.value() - value[1])", "self.n.update(n * 2 - {int})",
        "self.n.update(0)", "self.n.update(n | (value[1] & 7))", "self.n.update(n | {int})",
    ),
    "m": (
        "self.m.update(m + {int})", "self.m.update({int})", "self.m.clear()", "self.m.update(min(m, {int}))",
        "if value[1] > m:\n            self.m.update(value[1])", "self.m.update(self._doubled(m))",
    ),
    "text": ("self.text.update(value[2])", "self.text.update(text + 'x')", "self.text.clear()"),
    "pair": ("self.pair.update((a + 1, value[2]))", "self.pair.update(({int}, b))", "self.pair.clear()"),
    "last": (
        "self.last.update(value)", _TOGGLE, _TOGGLE, "self.last.update(before)", "self.last.clear()",
        "self.last.update((n_or_0, 1, 'x'))",
    ),
    "best": (
        "if best is None or {rank} < {rank of best}:\n            self.best.update(value)",
        "if best is None or {rank} >= {rank of best}:\n            self.best.update(value)",
        "if best is not None and not {rank} > {rank of best}:\n            self.best.clear()",
        "self.best.update(value if best is None else {max}(best, value, key=lambda r: (-r[1], r[2])))",
        "self.best.update(value)", "self.best.clear()",
    ),
    "high": ("self.high.add(value)", "self.high.add(({int}, 3, 'b'))", "self.high.clear()"),
    "early": (
        "if {rank} < {rank of early}:\n            self.early.update(value)",
        "if {rank of early} < {rank}:\n            self.early.update((value[0], value[1], 'm'))",
        "self.early.update({max}(early, value, key=lambda r: r[2]))", "self.early.clear()",
    ),
    "least": ("self.least.add({int})", "self.least.clear()"),
    "total": ("self.total.add({int})", "self.total.add(1)", "self.total.clear()"),
    "mean": ("self.mean.add({int})", "self.mean.clear()"),
    "top": (
        "self.top.update(top)", "self.top.update(top)", "self.top.clear()", "self.top.update([{int}])", "self.top.update([])",
        "if top[0] > 3:\n            self.top.update(top[1:])",
    ),
    "f": ("self.f.update(f)", "self.f.update(f)", "self.f.clear()", "self.f.update(f + 0.5)"),
    "items": (
        "self.items.add(({int}, value[2]))", "self.items.clear()",
        "if value[1] > 1:\n            self.items.add((value[1], 'x'))\n        else:\n            self.items.clear()",
    ),
    "seen": (
        "self.seen.put({map_key}, seen + 1)", "self.seen[{map_key}] = {int}", "self.seen.remove({map_key})",
        "self.seen.put({map_key}, 1)", "self.seen.put({map_key}, seen | 2)",
    ),
}  # fmt: skip
_RANKS = ("({}[1], {}[2])", "({}[2], -{}[1])", "(-{}[1], {}[0], {}[2])", "{}[1]", "-{}[1]")
_BETTER = ("lambda a, b: a if a[1] <= b[1] else b", "lambda a, b: max(a, b, key=lambda r: (r[2], -r[1]))",
           "lambda a, b: b if (b[1], b[2]) < (a[1], a[2]) else a", "lambda a, b: min(a, b)")
_MAP_KEYS = ("value[1]", "value[2]", "(value[1], value[2])", "value[1] % 3")


class StateFuzzer:
    """Makes cases, and tells those in which columns and records differ; ``counts`` says what became of all of them."""

    def __init__(self, seed: int = 0) -> None:
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self._seed = seed

    def run(self, case: int) -> Difference | None:
        """Run a case; return what is wrong."""
        dice = random.Random(f"state/{self._seed}/{case}")
        two = dice.random() < 0.3
        timers = random.Random(f"timers/{self._seed}/{case}").random() < 0.4
        source = _Writer(dice, timers).source(two) + f"\nkey = lambda record: {dice.choice(_KEYS)}"
        space = dict(_SPACE)
        exec(source, space)
        try:
            fact = self._compared(space["Function"], space["key"], two, dice)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            fact = f"{type(error).__name__}: {error}"
        return None if fact is None else Difference(case, source, fact)

    def _compared(self, function: Any, key: Any, two: bool, dice: random.Random) -> str | None:
        def in_rows() -> Any:
            call, keys = UserFunction(function(), rich=True), (UserFunction(key), UserFunction(key))
            return KeyedCoProcess(call, *keys) if two else KeyedProcess(call, keys[0])

        def on_columns() -> Any:
            return columnar_of_two(in_rows(), [_SCHEMA, _SCHEMA])[0] if two else columnar_process(in_rows(), _SCHEMA)[0]

        try:
            made = on_columns()
        except NotVectorizable as refused:
            self.counts["per record"] += 1
            self.refusals[str(refused)] += 1
            return None
        from funken.operators.stateful import blocks, logic  # noqa: PLC0415 - loads NumPy

        rounds = dice.choice((blocks._ROUNDS, dict.fromkeys((False, True), (1000, 1))))
        with patch.object(blocks, "_ROUNDS", rounds), patch.object(logic, "_SMALL", dice.choice((0, 0, 20))):
            return self._driven(_Driven(made), _Driven(in_rows()), two, dice)

    def _driven(self, columns: _Driven, records: _Driven, two: bool, dice: random.Random) -> str | None:
        for _ in range(dice.randrange(1, 8)):
            if dice.random() < 0.3:
                at = dice.randrange(80)
                for each in (columns, records):
                    each.watermark(at)
                if columns.given != records.given or columns.failed != records.failed:
                    facts = f"columns give {columns.given} {columns.failed}, records {records.given} {records.failed}"
                    return f"{facts}, at watermark {at}"
                if columns.failed is not None:
                    return None
            length = dice.choice((1, 5, 30))
            wild = dice.random() < 0.2
            block = [(dice.randrange(3), _number(dice, wild), dice.choice("abc")) for _ in range(length)]
            stamps = [dice.randrange(50) for _ in block]
            as_columns, second = dice.random() < 0.85, two and dice.random() < 0.5
            for each in (columns, records):
                each.step(block, stamps, as_columns and each is columns, second)
            if columns.failed != records.failed:
                return f"columns raise {columns.failed}, records {records.failed}"
            if columns.failed is not None:
                self.counts["raises"] += 1
                return None
            if columns.given != records.given:
                return f"columns give {columns.given}, records {records.given}, for {block}"
            if dice.random() < 0.25:
                if columns.kept() != records.kept():
                    return f"columns keep {columns.kept()}, records {records.kept()}, after {block}"
                columns.restore()
                records.restore()
        if columns.kept() != records.kept():
            return f"columns keep {columns.kept()}, records {records.kept()}"
        self.counts["columns"] += columns.on_columns
        self.counts["rows"] += columns.in_rows
        return None


def _number(dice: random.Random, wild: bool) -> int:
    return dice.choice((2**62, -(2**62), 2**63 - 1)) if wild and dice.random() < 0.2 else dice.randrange(-5, 9)


class _Driven:
    """One of the two operators."""

    def __init__(self, spec: Any) -> None:
        self._spec = spec
        self._harness = OperatorHarness(spec, keyed=True)
        self.given: list[Any] = []
        self.failed: str | None = None
        self.on_columns = self.in_rows = 0

    def step(self, records: list[Any], stamps: list[int], as_columns: bool, second: bool) -> None:
        """Give it a block, of its second input or the first."""
        from funken.columnar.kernels.columns import columns_of  # noqa: PLC0415 - loads NumPy

        operator: Any = self._harness.operator
        try:
            if as_columns:
                returns = operator._states._returns
                take = operator.process_second_block if second else operator.process_block
                take(columns_of(records, _SCHEMA, stamps))
                left = operator._states._returns > returns or not len(operator._states._of_key)
                self.on_columns, self.in_rows = self.on_columns + (not left), self.in_rows + left
            elif second:
                self._harness.feed_second_block(records, stamps)
            else:
                self._harness.feed_block(records, stamps)
        except Exception as error:  # noqa: BLE001 - both have to raise it
            self.failed = type(error).__name__
        self._take_given()

    def watermark(self, at: int) -> None:
        """Let event time come to some ms."""
        try:
            self._harness.watermark(at)
        except Exception as error:  # noqa: BLE001 - both have to raise it
            self.failed = type(error).__name__
        self._take_given()

    def _take_given(self) -> None:
        # Where timers set others, the results of keys whose timers have the same time may come in another order.
        found = self._harness.output_with_timestamps
        self.given = list(map(repr, sorted(found, key=lambda each: repr(each[0][0])) if found else ()))
        found.clear()

    def kept(self) -> list[str]:
        """Return all state."""
        for store in self._harness.context.before_snapshot:
            store()
        assert self._harness.context.keyed is not None
        groups = self._harness.context.keyed.snapshot().groups
        return sorted(
            repr((name, key, _sorted(stored)))
            for states in groups.values()
            for name, rows in states.items()
            for key, _, stored in rows
        )

    def restore(self) -> None:
        """Begin again from a snapshot."""
        self._harness = OperatorHarness.restored(self._spec, self._harness.snapshot(), keyed=True)


def _sorted(stored: Any) -> Any:
    return sorted(stored.items()) if isinstance(stored, dict) else stored


class _Writer:
    """Writes one function with state."""

    def __init__(self, dice: random.Random, timers: bool = False) -> None:
        self._dice = dice
        self._timers, self._fires = timers, False
        self._states = dice.sample(sorted(_DECLARED), dice.randrange(1, 4))
        self._map_key = dice.choice(_MAP_KEYS)

    def source(self, two: bool) -> str:
        """Return the source; of a function of ``two`` inputs, or one."""
        lines = [
            *_MEAN,
            f"class Function({'KeyedCoProcessFunction' if two else 'KeyedProcessFunction'}):",
            "    def __init__(self):",
            f"        self.limit = {self._dice.randrange(5)}",
        ]
        lines += ["    def open(self, runtime_context):"]
        for each in self._states:
            declared = _DECLARED[each].replace("{better}", self._dice.choice(_BETTER))
            lines.append(f"        self.{each} = runtime_context.{declared}")
        lines += ["    def _doubled(self, n):", "        if n > 100:", "            return 0", "        return n + n"]
        lines += [
            "    def _of_m(self, value):",
            "        m = self.m.value()",
            "        return value[1] if m is None else m",
        ]
        for number in ("1", "2") if two else ("",):
            lines += [f"    def process_element{number}(self, value, ctx):", *self._body(number == "2")]
        if self._timers:
            lines += ["    def on_timer(self, timestamp, ctx):", f"        value = ({self._dice.choice(('0', 'timestamp'))}, timestamp % 9, 'a')"]
            self._fires = True  # and sets none that may be due for ever
            lines += self._body(True)
            if self._dice.random() < 0.3:
                again = f"ctx.timer_service().register_event_time_timer(timestamp + {self._dice.randrange(1, 9)})"
                lines += ["        if 0 <= timestamp < 70:", f"            {again}"]
        return "\n".join(lines)

    def _body(self, second: bool) -> list[str]:
        lines = ["        " + self._filled(self._dice.choice(_READS[each])) for each in self._states]
        for _ in range(self._dice.randrange(1, 5)):
            lines += self._statement("        ", 2)
        for each in () if second else self._states:
            if not any(f"self.{each}.{call}(" in line for line in lines for call in ("update", "put", "add")):
                write = self._filled(
                    self._dice.choice(
                        [text for text in _WRITES[each] if any(call in text for call in (".update(", ".put(", ".add("))]
                    )
                )
                lines += ["        if value[1] != 2:", "            " + write.replace("\n", "\n    ")]
        return [*lines, f"        yield {self._result()}"]

    def _filled(self, text: str) -> str:
        rank = self._dice.choice(_RANKS)
        for place, of in (("{rank}", "value"), ("{rank of best}", "best"), ("{rank of early}", "early")):
            text = text.replace(place, rank.replace("{}", of))
        text = text.replace("{max}", self._dice.choice(("max", "min")))
        while "{int}" in text:
            text = text.replace("{int}", self._int(), 1)
        return text.replace("{map_key}", self._map_key).replace("n_or_0", "n" if "n" in self._states else "0")

    def _int(self, depth: int = 1) -> str:
        dice = self._dice
        of_states = [each for state in self._states for each in _INTS[state]]
        plain = [*of_states, "value[1]", "value[1]", "value[0]", "1", "-2", "self.limit", "ctx.timestamp()"]
        if depth and dice.random() < 0.3:
            return f"({self._int(0)} {dice.choice(('+', '-', '* 3 -'))} {self._int(0)})"
        return dice.choice(plain)

    def _condition(self) -> str:
        dice = self._dice
        found = [
            f"{self._int()} {dice.choice(('<', '>', '<=', '>=', '==', '!='))} {self._int()}",
            f"value[1] % 3 == {dice.randrange(3)}", f"value[2] == {dice.choice('abc')!r}",
        ]  # fmt: skip
        found += ["last is None", "last is not None and last[1] > value[1]"] if "last" in self._states else []
        found += [f"{self._map_key} in self.seen"] if "seen" in self._states else []
        return dice.choice(found)

    def _statement(self, indent: str, depth: int) -> list[str]:
        dice = self._dice
        kind = dice.choice(("write", "write", "write", "yield", "if", "if", "return", *["timer"] * 2 * self._timers))
        if kind == "timer":
            service = dice.choice(("ctx.timer_service()", "timers"))
            set_ = "delete" if self._fires else dice.choice(("register", "register", "delete"))
            at = self._int() if dice.random() < 0.7 else "max(ctx.timer_service().current_watermark(), 0) + value[1]"
            lines = [f"{indent}timers = ctx.timer_service()"] if service == "timers" else []
            return [*lines, f"{indent}{service}.{set_}_event_time_timer({at})"]
        if kind == "if" and depth:
            lines = [f"{indent}if {self._condition()}:", *self._statement(indent + "    ", depth - 1)]
            if dice.random() < 0.5:
                lines += [f"{indent}else:", *self._statement(indent + "    ", depth - 1)]
            return lines
        if kind == "yield":
            return [f"{indent}yield {self._result()}"]
        if kind == "return" and depth < 2:
            return [f"{indent}return"]
        state = dice.choice(self._states)
        text = self._filled(dice.choice(_WRITES[state]))
        return [indent + line for line in text.replace("\n        ", "\n").split("\n")]

    def _result(self) -> str:
        return f"(ctx.get_current_key(), {self._int()}, {self._int()})"


__all__ = ["StateFuzzer"]

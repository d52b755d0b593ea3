"""Random functions with keyed state and timers, as source: what ``states.py`` runs on columns and on records."""

from __future__ import annotations

import random

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
_INT_TYPES = ("LONG()", "INT()", "SHORT()", "BYTE()")
_TYPES = {
    **dict.fromkeys(("n", "m", "least", "total", "seen"), _INT_TYPES),
    **dict.fromkeys(
        ("last", "best", "high", "early"),
        (
            "TUPLE([Types.LONG(), Types.LONG(), Types.STRING()])",
            "TUPLE([Types.INT(), Types.SHORT(), Types.STRING()])",
            "TUPLE([Types.LONG(), Types.INT()])",
        ),
    ),
    "text": ("STRING()",),
    "pair": ("TUPLE([Types.LONG(), Types.STRING()])", "TUPLE([Types.BYTE(), Types.STRING()])"),
    "top": ("LONG()",),
    "items": ("TUPLE([Types.LONG(), Types.STRING()])",),
    "f": ("FLOAT()", "DOUBLE()", "FLOAT()"),
}
"""What states may declare; of ``FLOAT`` the sums are rounded, and ints of few bits wrap."""
_READ_AGAIN = {
    "n": "        yield ctx.get_current_key(), 0, self.n.value()",
    "least": "        yield ctx.get_current_key(), 0, self.least.get() or 0",
    "total": "        yield ctx.get_current_key(), 0, self.total.get() or 0",
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
_BETTER = (
    "lambda a, b: a if a[1] <= b[1] else b",
    "lambda a, b: max(a, b, key=lambda r: (r[2], -r[1]))",
    "lambda a, b: b if (b[1], b[2]) < (a[1], a[2]) else a",
    "lambda a, b: min(a, b)",
)
_MAP_KEYS = ("value[1]", "value[2]", "(value[1], value[2])", "value[1] % 3")


class StateProgram:
    """Writes one function with state."""

    def __init__(
        self, dice: random.Random, timers: bool = False, lives: random.Random | None = None,
        types: random.Random | None = None,
    ) -> None:  # fmt: skip
        """``lives``: decides which states expire, after how long; ``types``: which have a declared type; ``None``: none do."""
        self._dice, self._lives, self._types = dice, lives, types
        self._timers, self._fires = timers, False
        #: which timers a timer sets: later ones, or those before it, for with both they would be due for ever
        later = ("0 <= timestamp", f"timestamp + {dice.randrange(1, 30)}")
        self._again = dice.choice((later, ("timestamp % 7 == 3", "timestamp - 1")))
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
            lines += self._opened(each, declared)
        lines += ["    def _doubled(self, n):", "        if n > 100:", "            return 0", "        return n + n"]
        lines += [
            "    def _of_m(self, value):",
            "        m = self.m.value()",
            "        return value[1] if m is None else m",
        ]
        for number in ("1", "2") if two else ("",):
            lines += [f"    def process_element{number}(self, value, ctx):", *self._body(number == "2")]
        if self._timers:
            lines += [
                "    def on_timer(self, timestamp, ctx):",
                f"        value = ({self._dice.choice(('0', 'timestamp'))}, timestamp % 9, 'a')",
            ]
            self._fires = True  # and sets none that may be due for ever
            lines += self._body(True)
        return "\n".join(lines)

    def _opened(self, state: str, declared: str) -> list[str]:
        if self._types is not None and state in _TYPES and self._types.random() < 0.8:
            declared = _with_type(declared, state, f"Types.{self._types.choice(_TYPES[state])}")
        if self._lives is None or "list" in declared or self._lives.random() < 0.3:
            return [f"        self.{state} = runtime_context.{declared}"]
        get, _, descriptor = declared.removesuffix(")").partition("(")
        update = self._lives.choice(("OnReadAndWrite", "OnCreateAndWrite"))
        clean = self._lives.choice(("cleanup_incrementally(2)", "disable_cleanup_in_background()"))
        config = f"StateTtlConfig.new_builder({self._lives.choice((1, 5, 12))}).{clean}"
        return [
            f"        descriptor = {descriptor}",
            f"        config = {config}.set_update_type(StateTtlConfig.UpdateType.{update}).build()",
            "        descriptor.enable_time_to_live(config)",
            f"        self.{state} = runtime_context.{get}(descriptor)",
        ]

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
        if self._types is not None:  # floats of which sums are rounded; and what is read behind a write
            lines = [line.replace("* 0.25", "* 0.3").replace("/ 4", "/ 7") for line in lines]
            lines += [line for state, line in _READ_AGAIN.items() if state in self._states]
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
            set_ = dice.choice(("register", "register", "delete"))
            if self._fires and set_ == "register":
                test, at = self._again
                return [f"{indent}if {test}:", f"{indent}    ctx.timer_service().register_event_time_timer({at})"]
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


def _with_type(declared: str, state: str, type_info: str) -> str:
    if "Reducing" in declared:
        return f"{declared.removesuffix('))')}, {type_info}))"
    return declared.replace(f'"{state}"', f'"{state}", {"Types.STRING(), " * ("Map" in declared)}{type_info}')


__all__ = ["StateProgram"]

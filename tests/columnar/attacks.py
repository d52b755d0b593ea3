# ruff: noqa: E501, E731, PLW0108, T201 - tables of source, a choice after the other
"""Random programs that attack the reader of functions: writes in ``try``, loops, classes with hooks, objects that are shared.

Program ``n`` of a seed is the same each time. It runs record by record, with functions inlined, and on columns; the results, or the
error, have to be the same. ``python -m tests.columnar.attacks SECONDS [SEED] [quick]`` runs programs for so long and prints what
differs; ``quick``: no jobs, just functions and kernels.
"""

import enum
import os
import random
import re
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from funken import Configuration, DataGeneratorSource, Row, StreamExecutionEnvironment, WatermarkStrategy
from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import FallBackToRows, computed
from funken.columnar.tracing import trace
from funken.errors import JobExecutionError
from funken.expr.types import INT
from funken.operators.columnar.stateless import given_of

RECORDS = 7

PRELUDE = """
import collections, dataclasses, datetime, enum, math, re
from tests.columnar.attacks import *

LIMIT, NAME, TABLE, KNOWN, FORMS, PATTERN = 3, "ab", {"a": 1, "b": 2}, [1, 2], {"a": {"x": 1}, "b": {"x": 2}}, re.compile("[a-c]+")
ODD, LOUD, FILLED, EVERYTHING = Odd(3), Loud("a"), Filled({1: 2}), Everything({5})
"""


class Odd(int):
    """An int with its own arithmetic."""

    def __add__(self, other):
        return -1

    __radd__ = __mul__ = __rmul__ = __add__

    def __eq__(self, other):
        return True

    def __lt__(self, other):
        return True

    def __hash__(self):
        return 1

    def __format__(self, spec):
        return "odd"

    def __bool__(self):
        return False


class Loud(str):
    """A text with its own ideas."""

    __slots__ = ()

    def __str__(self):
        return "LOUD"

    def __contains__(self, part):
        return False

    def __add__(self, other):
        return "added"

    def __len__(self):
        return 99

    def upper(self):
        return "quiet"


class Filled(dict):
    """A dict that has every key."""

    def __missing__(self, key):
        return 100


class Everything(frozenset):
    """A set that holds everything."""

    def __contains__(self, value):
        return True


class Meta(type):
    """A class that decides what is of it."""

    def __instancecheck__(cls, value):
        return bool(value)

    @property
    def rate(cls):
        return 13


class Truthy(metaclass=Meta):
    """Whatever is true."""


class Level(enum.IntEnum):
    """Numbers with names."""

    LOW = 1
    HIGH = 2


@dataclass
class Plain:
    """A dataclass."""

    n: int
    s: str
    items: list
    inner: dict


@dataclass(frozen=True)
class Frozen:
    """A dataclass that refuses writes."""

    n: int
    s: str
    items: list
    inner: dict


@dataclass(slots=True)
class Slotted:
    """A dataclass without other attributes."""

    n: int
    s: str
    items: list
    inner: dict


@dataclass
class Hooked:
    """A dataclass with hooks."""

    n: int
    s: str
    items: list
    inner: dict

    def __bool__(self):
        return self.n > 2

    def __len__(self):
        return 42

    def __contains__(self, value):
        return True

    def __getitem__(self, key):
        return getattr(self, key) if isinstance(key, str) else key

    def __eq__(self, other):
        return True

    def __str__(self):
        return "hooked"

    __hash__ = None

    @property
    def double(self):
        return self.n * 2


class Pair(NamedTuple):
    """A named tuple with hooks."""

    n: int
    s: str
    items: list
    inner: dict

    def __bool__(self):
        return self[0] > 2

    def __str__(self):
        return "pair"

    @property
    def double(self):
        return self.n * 2


MAKERS = {
    "dict": lambda n: {"n": n - 2, "s": f"a{n % 3}"[n % 2 :], "items": [n, -n], "inner": {"x": n, "y": str(n % 2)}},
    "tuple": lambda n: (n - 2, f"a{n % 3}"[n % 2 :], [n, -n], {"x": n, "y": str(n % 2)}),
    "Plain": lambda n: Plain(n - 2, f"a{n % 3}"[n % 2 :], [n, -n], {"x": n, "y": str(n % 2)}),
    "Frozen": lambda n: Frozen(n - 2, f"a{n % 3}"[n % 2 :], [n, -n], {"x": n, "y": str(n % 2)}),
    "Slotted": lambda n: Slotted(n - 2, f"a{n % 3}"[n % 2 :], [n, -n], {"x": n, "y": str(n % 2)}),
    "Hooked": lambda n: Hooked(n - 2, f"a{n % 3}"[n % 2 :], [n, -n], {"x": n, "y": str(n % 2)}),
    "Pair": lambda n: Pair(n - 2, f"a{n % 3}"[n % 2 :], [n, -n], {"x": n, "y": str(n % 2)}),
    "Row": lambda n: Row(n=n - 2, s=f"a{n % 3}"[n % 2 :], items=[n, -n], inner={"x": n, "y": str(n % 2)}),
    "int": lambda n: n - 2,
    "str": lambda n: f"a{n % 3}"[n % 2 :],
}
FIELDS = ("n", "s", "items", "inner")
ERRORS = (
    "Exception",
    "TypeError",
    "AttributeError",
    "(KeyError, IndexError)",
    "ZeroDivisionError",
    "ValueError",
    "LookupError",
)


class Writer:
    """Writes one function."""

    def __init__(self, chance, form, gives):
        self.chance, self.form, self.gives = chance, form, gives
        self.names = {"r"}
        self.budget = 14
        self.loops = 0

    def pick(self, *choices):
        found = self.chance.choice(choices)
        return found() if callable(found) else found

    def rarely(self, *choices):
        return self.pick(*choices) if self.chance.random() < 0.25 else self.pick("1", "LIMIT", "4")

    def field(self, name=None):
        name = name or self.chance.choice(FIELDS)
        if self.form in ("int", "str"):
            return "r"
        by_name = {
            "dict": f"r[{name!r}]",
            "tuple": f"r[{FIELDS.index(name)}]",
            "Row": f"r[{name!r}]",
            "Pair": f"r[{FIELDS.index(name)}]",
        }
        if self.chance.random() < 0.06:
            return self.pick(f"r.get({name!r})", f"r[{name!r}]", f"r.{name}", "r[0]", "r.double", "r['none']", "r[-1]")
        return (
            by_name.get(self.form, f"r.{name}")
            if self.chance.random() < 0.8 or self.form in ("dict", "tuple")
            else f"r.{name}"
        )

    def number(self, depth=0):
        if depth > 2:
            return self.pick("1", "2", "0", "-3", lambda: self.field("n"), "LIMIT", *self.names)
        sub = lambda: self.number(depth + 1)
        return self.pick(
            lambda: self.field("n"), lambda: self.field("n"), "1", "LIMIT", lambda: self.rarely("ODD", "Level.HIGH", "Truthy.rate"), *(self.names - {"r"}),
            lambda: f"{sub()} + {sub()}", lambda: f"({sub()} - {sub()})", lambda: f"{sub()} * {sub()}", lambda: f"({sub()} // {sub()})",
            lambda: f"({sub()} % {sub()})", lambda: f"len({self.any(depth + 1)})", lambda: f"({sub()} if {self.truth(depth + 1)} else {sub()})",
            lambda: f"max({sub()}, {sub()})", lambda: f"abs({sub()})", lambda: f"int({self.any(depth + 1)})", lambda: f"sum({self.field('items')})",
            lambda: f"TABLE[{self.text(depth + 1)}]", lambda: f"TABLE.get({self.text(depth + 1)}, 0)", lambda: self.rarely(f"FILLED[{sub()}]"),
            lambda: f"{self.field('inner')}['x']", lambda: f"({sub()} or {sub()})", lambda: f"sum(i for i in {self.field('items')} if i > 0)",
            lambda: f"{self.field('items')}[0]", lambda: f"FORMS[{self.text(depth + 1)}]['x']",
        )  # fmt: skip

    def text(self, depth=0):
        if depth > 2:
            return self.pick("'a'", "''", lambda: self.field("s"), "NAME")
        sub = lambda: self.text(depth + 1)
        return self.pick(
            lambda: self.field("s"), lambda: self.field("s"), "'b'", "NAME", lambda: self.rarely("LOUD"), lambda: f"({sub()} + {sub()})", lambda: f"{sub()}.upper()",
            lambda: f"str({self.any(depth + 1)})", lambda: "f\"{" + self.any(depth + 1).replace('"', "'") + "}-{" + self.number(2) + "}\"",
            lambda: f"{sub()}[:2]", lambda: f"{sub()}.replace('a', 'b')", lambda: f"({sub()} or 'z')", lambda: f"{self.field('inner')}['y']",
            lambda: f"({sub()} if {self.truth(depth + 1)} else {sub()})", lambda: f"','.join([{sub()}, {sub()}])", lambda: f"{sub()} * 2",
        )  # fmt: skip

    def truth(self, depth=0):
        sub = lambda: self.truth(depth + 1)
        choices = [
            lambda: f"{self.number(depth + 1)} > {self.number(depth + 1)}", lambda: f"{self.number(depth + 1)} == {self.number(depth + 1)}",
            lambda: f"{self.text(depth + 1)} in {self.text(depth + 1)}", lambda: f"{self.number(depth + 1)} in KNOWN", lambda: self.any(depth + 1),
            lambda: f"isinstance({self.any(2)}, {self.pick('int', 'str', lambda: self.rarely('Truthy', 'Level'), 'dict', '(int, str)', 'Plain', 'object', 'tuple')})",
            lambda: f"{self.any(2)} is None", lambda: f"{self.any(2)} is not None", lambda: self.rarely(f"{self.number(2)} in EVERYTHING"),
            lambda: f"PATTERN.match({self.text(2)})", lambda: "'x' in r", lambda: f"r == {self.any(2)}",
        ]  # fmt: skip
        if depth < 2:
            choices += [lambda: f"({sub()} and {sub()})", lambda: f"({sub()} or {sub()})", lambda: f"not {sub()}"]
        return self.pick(*choices)

    def any(self, depth=0):
        if depth > 2:
            return self.pick("r", lambda: self.field(), *self.names)
        return self.pick(
            lambda: self.number(depth + 1), lambda: self.text(depth + 1), "r", lambda: self.field(), "None", *self.names
        )

    def record(self, depth=0):
        """Return an expression that may hold objects that can be changed."""
        sub = lambda: self.record(depth + 1) if depth < 2 else self.any(2)
        return self.pick(
            "r", "r", lambda: self.field("items"), lambda: self.field("inner"), lambda: f"({sub()}, {sub()})", *self.names,
            lambda: f"{{'a': {sub()}, 'b': {sub()}}}", lambda: f"[{sub()}, {sub()}]", lambda: self.number(1), lambda: self.text(1),
            lambda: f"({self.number(1)}, {self.text(1)})", lambda: f"{{**{self.field('inner')}, 'z': {self.number(1)}}}",
            lambda: f"[i + 1 for i in {self.field('items')}]", lambda: f"[(i, {self.any(2)}) for i in {self.field('items')}]",
            lambda: f"({sub()} if {self.truth(1)} else {sub()})", lambda: f"dict({self.field('inner')})", lambda: f"sorted({self.field('items')})",
            lambda: f"Frozen({self.number(1)}, {self.text(1)}, {self.field('items')}, {self.field('inner')})", lambda: self.number(1),
            lambda: f"({self.number(1)}, {self.text(1)})", lambda: f"{{'n': {self.number(1)}, 's': {self.text(1)}}}", lambda: self.text(1),
        )  # fmt: skip

    def write(self):
        name = self.chance.choice(FIELDS)
        target = self.pick("r", "r", "r", lambda: self.field("inner"), *self.names)
        value = self.pick(self.number, self.text, self.record)
        if self.chance.random() < 0.6:  # as the record takes them
            target = self.pick("r", "r", *self.names)
            value = self.pick(self.number, self.text)
            if self.form == "dict":
                return self.pick(
                    f"{target}[{name!r}] = {value}",
                    f"{target}['new'] = {value}",
                    f"{target}[{name!r}] += 1",
                    f"del {target}[{name!r}]",
                    f"{target}.update(n={value})",
                    f"{target}.pop({name!r})",
                )
            if self.form not in ("int", "str", "tuple", "Pair"):
                return self.pick(f"{target}.{name} = {value}", f"{target}.n += 1", f"{target}.n = {self.number()}")
        grows = () if self.loops else (f"{target}.append({value})", f"{self.field('items')}.append({value})")
        return self.pick(
            *grows, f"{target}[{name!r}] = {value}", f"{target}.{name} = {value}", f"{target}[0] = {value}", f"{target}['x'] = {value}",
            f"del {target}[{name!r}]", f"del {target}.{name}", f"{target}.update(x={value})", f"{target}.pop({name!r}, None)",
            f"{target}[{name!r}] += {self.number(1)}",
            f"{target}.{name} += {self.number(1)}", f"{self.field('inner')}['x'] = {value}", f"{target}.new = {value}", f"{target}.pop({name!r})",
            f"{target}.setdefault({name!r}, {value})",
        )  # fmt: skip

    def lines(self, depth=0):
        found = []
        for _ in range(self.chance.randint(1, 3)):
            self.budget -= 1
            if self.budget < 0:
                break
            found += self.statement(depth)
        return found or ["pass"]

    def block(self, depth):
        before = set(self.names)
        found = ["    " + line for line in self.lines(depth + 1)]
        self.names = before | (self.names if self.chance.random() < 0.3 else set())
        return found

    def assign(self):
        name = self.chance.choice("abc")
        value = self.pick(self.number, self.text, self.record, self.any)
        self.names.add(name)
        return [f"{name} = {value}"]

    def statement(self, depth):
        choices = [self.assign, self.assign, lambda: [self.write()], lambda: [self.write()]]
        if self.gives == "several":
            choices += [lambda: [f"yield {self.record()}"]] * 3
        elif self.chance.random() < 0.3:
            choices.append(lambda: [f"return {self.record()}"])
        if depth < 3:
            choices += [
                lambda: self.branch(depth),
                lambda: self.attempt(depth),
                lambda: self.attempt(depth),
                lambda: self.loop(depth),
            ]
        return self.pick(*choices)

    def branch(self, depth):
        found = [f"if {self.truth()}:", *self.block(depth)]
        if self.chance.random() < 0.4:
            found += [f"elif {self.truth()}:", *self.block(depth)]
        if self.chance.random() < 0.5:
            found += ["else:", *self.block(depth)]
        return found

    def attempt(self, depth):
        found = ["try:", *self.block(depth), f"except {self.chance.choice(ERRORS)}:", *self.block(depth)]
        if self.chance.random() < 0.3:
            found += ["else:", *self.block(depth)]
        if self.chance.random() < 0.3:
            found += ["finally:", *self.block(depth)]
        return found

    def loop(self, depth):
        self.loops += 1
        try:
            return self.looped(depth)
        finally:
            self.loops -= 1

    def looped(self, depth):
        name = self.chance.choice("ijk")
        over = self.pick(
            lambda: self.field("items"), "(1, 2)", "range(3)", "('a', 'b')", lambda: f"list({self.field('items')})", "KNOWN", "('n', 's')",
            lambda: f"({self.any(2)}, {self.any(2)})", lambda: f"{self.text(2)}.split('b')", lambda: f"enumerate({self.field('items')})",
        )  # fmt: skip
        if self.chance.random() < 0.2:
            self.names.add("w")
            return ["w = 0", f"while w < {self.chance.randint(1, 3)}:", "    w += 1", *self.block(depth)]
        self.names.add(name)
        found = [f"for {name} in {over}:", *self.block(depth)]
        if self.chance.random() < 0.3:
            found.append("    " + self.pick(f"if {self.truth(1)}: break", f"if {self.truth(1)}: continue", "break"))
        if self.chance.random() < 0.15:
            found += ["else:", *self.block(depth)]
        return found

    def function(self):
        lines = self.lines()
        if self.gives == "one":
            lines.append(f"return {self.record()}")
        elif not any("yield" in line for line in lines):
            lines.append(f"yield {self.record()}")
        return "def function(r):\n" + "".join(f"    {line}\n" for line in lines)


def changes_all(record):
    """Change everything in a record that can be, and return what the whole became."""
    todo, steps = [record], 0
    while todo and steps < 50:
        each, steps = todo.pop(), steps + 1
        if type(each) is dict:
            todo += each.values()
            each["changed"] = each.get("changed", 0) + 1
        elif type(each) is list:
            todo += each
            if len(each) < 6:
                each.append(0)
        elif isinstance(each, tuple):
            todo += each
        elif isinstance(each, Plain | Hooked | Slotted):
            todo += [each.items, each.inner]
            each.n = 1000
        elif isinstance(each, Row):
            each["n"] = 1000
    return shown(record)


class Program:
    """A random program."""

    def __init__(self, seed, number):
        chance = random.Random(f"{seed} {number}")
        self.form = chance.choice(list(MAKERS))
        self.gives = chance.choice(("one", "one", "several"))
        self.expression = self.gives == "one" and chance.random() < 0.25
        writer = Writer(chance, self.form, self.gives)
        if self.expression:
            self.source = f"function = lambda r: {writer.record()}"
        else:
            self.source = writer.function()
        self.then = chance.random() < 0.6

    def function(self):
        space = {"__name__": "attacked", "__builtins__": __builtins__}
        exec(PRELUDE + self.source, space)
        return space["function"]

    def run(self, **options):
        """Return the results, or the error."""
        settings = {key.replace("_", "."): value for key, value in options.items()}
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration(settings))
        source = DataGeneratorSource(MAKERS[self.form], RECORDS)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "records")
        stream = stream.map(self.function()) if self.gives == "one" else stream.flat_map(self.function())
        if self.then:
            stream = stream.map(changes_all)
        try:
            found = stream.execute_and_collect(limit=1000)
        except JobExecutionError as error:
            return str(error).splitlines()[0]
        return [shown(each) for each in found]

    def compare_records(self):
        """Return how single records differ that kernels compute; ``None`` if they do not. Takes a tenth of a job."""
        made, schema = trace(MAKERS[self.form], None, 1).typed(INT)
        function = self.function()
        try:
            if self.gives == "one":
                traced, result = trace(function, None, 1, True, schema).typed(schema)
            else:
                traced, result = trace_flat_map(function, None, schema).typed(schema)
        except NotVectorizable:
            return None
        for number in range(RECORDS):
            block = computed(made.result, schema, columns_of([number], INT))
            try:
                if self.gives == "one":
                    found = [shown(each) for each in computed(traced.result, result, block).to_list()]
                else:
                    found = [shown(each) for each in given_of(traced.emissions, result, block).to_list()]
            except FallBackToRows:
                continue
            try:
                made_here = function(MAKERS[self.form](number))
                called = [shown(made_here)] if self.gives == "one" else [shown(each) for each in made_here]
            except Exception as error:  # noqa: BLE001 - whatever it is
                called = f"{type(error).__name__}: {error}"
            if found != called:
                return f"record {number} on columns: {found}\nin rows: {called}"
        return None

    def compare(self):
        """Return how the ways differ; ``None`` if they do not."""
        rows = self.run(pipeline_vectorized=False, pipeline_inlining=False)
        for name, options in (
            ("inlined", {"pipeline_vectorized": False}),
            ("on columns", {"pipeline_vectorized": True}),
        ):
            found = self.run(**options)
            if found != rows:
                return f"{name}: {found}\nin rows: {rows}"
        return None


def shown(record):
    """Return a record as text, without addresses; a field of it may have been deleted."""
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", repr(record))
    except AttributeError as error:
        return str(error)


def compiles(program):
    """Return True if a program is one: names in ``del`` or assignments may be none that Python takes."""
    try:
        compile(program.source, "<attack>", "exec")
    except SyntaxError:
        return False
    return True


class TooLong(BaseException):
    """A program runs for too long."""


def too_long(*_):
    """End a program."""
    raise TooLong


def attack(seed, numbers, quick=False):
    """Yield what differs or fails, of the programs with these numbers."""
    for number in numbers:
        program = Program(seed, number)
        if not compiles(program):
            continue
        signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, 4)
        try:
            found = program.compare_records() if quick else program.compare()
        except TooLong:  # a text that is doubled in loops; compared is what ends
            continue
        except Exception:  # noqa: BLE001 - that is what is looked for
            found = traceback.format_exc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if found is not None:
            yield number, program, found


def main(seconds, seed, quick):
    """Run programs for so long, and print what differs."""
    os.environ["FUNKEN_RAISE_FAULTS"] = "1"
    warnings.simplefilter("ignore", SyntaxWarning)
    end, kinds, number = time.monotonic() + seconds, Counter(), 0
    while time.monotonic() < end:
        for found, program, fact in attack(seed, range(number, number + 5), quick):
            kinds[program.form] += 1
            print(f"# {seed} {found} {program.form} {program.gives}\n{program.source}\n{fact[-1500:]}\n", flush=True)
        number += 5
    print(f"{number} programs, different: {dict(kinds)}")


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "0", "quick" in sys.argv)

"""State that functions keep outside Flink's state is told, and nothing else is."""

import pytest

from tests.support.mistakes import said

HEAD = "from funken import *\nenv = StreamExecutionEnvironment.create_local_environment(1)\n"
MORE = "import collections, itertools, re, types\n"


def process(body, init="self.n = 0", more=""):
    """Return a program with a keyed function."""
    return (
        f"{MORE}class K(KeyedProcessFunction):\n    def __init__(self):\n        {init}\n"
        f"    def process_element(self, value, ctx):\n        {body}\n        yield value\n{more}"
        "env.from_collection([1, 2, 3]).key_by(str).process(K()).print()\nenv.execute()"
    )


def mapped(function, call="map(f)"):
    """Return a program with a function."""
    return f"{MORE}{function}\nenv.from_collection([1, 2]).{call}.print()\nenv.execute()"


KEPT = {
    "a dict": (process("self.d[value] = self.d.get(value, 0) + 1; value = self.d[value]", "self.d = {}"), "self.d"),
    "an item in place": (
        process("self.d[value] += 1; value = self.d[value]", "self.d = collections.defaultdict(int)"),
        "self.d",
    ),
    "a list": (process("self.l.append(value); value = len(self.l)", "self.l = []"), "self.l"),
    "a set of what was seen": (
        process("\n        if value in self.s: return\n        self.s.add(value)", "self.s = set()"),
        "self.s",
    ),
    "the first value of a key": (
        process(
            "\n        if value % 2 not in self.d: self.d[value % 2] = value\n        value = self.d[value % 2]",
            "self.d = {}",
        ),
        "self.d",
    ),
    "a dict of what was seen": (
        process("\n        if value in self.d: return\n        self.d[value] = True", "self.d = {}"),
        "self.d",
    ),
    "a count": (process("self.n += 1; value = self.n"), "self.n"),
    "the last value": (process("last = self.n; self.n = value; value = value - (last or 0)"), "self.n"),
    "setattr": (process("setattr(self, 'n', getattr(self, 'n') + 1); value = self.n"), "self.n"),
    "__dict__": (
        process("self.__dict__['n'] = self.__dict__.get('n', 0) + 1; value = self.__dict__['n']"),
        "self.n",
    ),
    "an attribute of an object": (
        process("self.o.n = self.o.n + 1; value = self.o.n", "self.o = types.SimpleNamespace(n=0)"),
        "self.o.n",
    ),
    "a method": (
        process("self._count(); value = self.n", more="    def _count(self):\n        self.n += 1\n"),
        "self.n",
    ),
    "a method of a method": (
        process(
            "self._a(value); value = len(self.d)",
            "self.d = {}",
            "    def _a(self, v):\n        self._b(v)\n    def _b(self, v):\n        self.d[v] = 1\n",
        ),
        "self.d",
    ),
    "a class": (process("K.n += 1; value = K.n", "pass", "    n = 0\n"), "self.n"),
    "a class by type": (process("type(self).n += 1; value = K.n", "pass", "    n = 0\n"), "self.n"),
    "a global dict": (mapped("seen = {}", "map(lambda x: seen.setdefault(x, len(seen)))"), "'seen'"),
    "a global set": (mapped("seen = set()", "filter(lambda x: not (x in seen or seen.add(x)))"), "'seen'"),
    "a counter": (mapped("c = collections.Counter()\ndef f(x):\n    c[x] += 1\n    return c[x]"), "'c'"),
    "an iterator": (mapped("c = itertools.count()\ndef f(x): return next(c), x"), "'c'"),
    "a closure": (
        mapped(
            "def make():\n    seen = []\n    def f(x):\n        seen.append(x)\n        return len(seen)\n    return f",
            "map(make())",
        ),
        "'seen'",
    ),
    "a nonlocal": (
        mapped(
            "def make():\n    n = 0\n    def f(x):\n        nonlocal n\n        n += 1\n        return n\n    return f",
            "map(make())",
        ),
        "'n'",
    ),
    "a default value": (mapped("def f(x, seen={}):\n    seen[x] = seen.get(x, 0) + 1\n    return seen[x]"), "'seen'"),
    "a function's attribute": (mapped("def f(x):\n    f.n = getattr(f, 'n', 0) + 1\n    return f.n"), "f.n"),
    "a helper": (
        mapped("seen = []\ndef g(x):\n    seen.append(x)\n    return len(seen)", "map(lambda x: g(x))"),
        "'seen'",
    ),
    "a reduce": (
        mapped("n = [0]\ndef f(a, b):\n    n[0] += 1\n    return a + b", "key_by(lambda x: 0).reduce(f)"),
        "'n'",
    ),
}
SILENT = {
    "a cache": process(
        "\n        if value not in self.d: self.d[value] = str(value)\n        value = self.d[value]", "self.d = {}"
    ),
    "a cache by two fields": process(
        "\n        k = value % 2, value\n        if k not in self.d: self.d[k] = str(k)\n        value = self.d[k]",
        "self.d = {}",
    ),
    "a cache with or": process("value = self.d.get(value) or self.d.setdefault(value, str(value))", "self.d = {}"),
    "an object made when it is missed": process(
        "\n        if self.o is None: self.o = re.compile('a')\n        value = bool(self.o.match(str(value)))",
        "self.o = None",
    ),
    "a buffer that close() empties": process(
        "self.l.append(value)", "self.l = []", "    def close(self):\n        print(self.l)\n"
    ),
    "a count that is only logged": process("self.n += 1\n        print('at', self.n)"),
    "a list that each record begins": process("self.l = []; self.l.append(value); value = len(self.l)", "pass"),
    "snapshot_state": process(
        "self.n += 1; value = self.n", more="    def snapshot_state(self, context):\n        pass\n"
    ),
    "a metric": process(
        "self.c.inc()", "pass", "    def open(self, ctx):\n        self.c = ctx.get_metrics_group().counter('c')\n"
    ),
    "a state": process(
        "self.s.update((self.s.value() or 0) + 1); value = self.s.value()",
        "pass",
        "    def open(self, ctx):\n        self.s = ctx.get_state(ValueStateDescriptor('s'))\n",
    ),
    "a local collection": mapped("def f(x):\n    seen = {}\n    seen[x] = 1\n    return len(seen)"),
    "a record that is changed": mapped("def f(x):\n    x = {'a': x}\n    x['b'] = 1\n    return x"),
    "a table that is only read": mapped("names = {1: 'a'}\ndef f(x): return names.get(x)"),
}


@pytest.mark.parametrize("name", KEPT)
def test_state_outside_of_a_state_is_told(name, caplog, capsys):
    program, holder = KEPT[name]

    assert f"changes {holder}, " in said(f"{HEAD}{program}\n", caplog)


@pytest.mark.parametrize("name", SILENT)
def test_a_look_alike_is_told_nothing(name, caplog, capsys):
    assert " changes " not in said(f"{HEAD}{SILENT[name]}\n", caplog)

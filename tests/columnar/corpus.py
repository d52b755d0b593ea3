# ruff: noqa: SIM105, T201 - it is a script, too
"""Functions of the standard library, and of installed packages, as functions of ``map``.

Each is called with sampled values, held in a generated loop, and read for columns and computed: the results, their types, and the
errors have to be the same, and reading may take ``MOST`` seconds. ``python -m tests.columnar.corpus SECONDS [PACKAGE ...]`` goes
through more than the tests do.
"""

import importlib
import pkgutil
import random
import re
import signal
import sys
import time
import types
import warnings
from collections import Counter

from funken.columnar.expressions import NotVectorizable, schema_of_value
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import FallBackToRows, computed
from funken.columnar.tracing import trace
from funken.operators.codegen import LoopText

MOST = 0.3
MODULES = [
    "ast",
    "base64",
    "binascii",
    "bisect",
    "calendar",
    "cmath",
    "codecs",
    "collections",
    "colorsys",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "email.header",
    "email.utils",
    "enum",
    "fnmatch",
    "fractions",
    "functools",
    "genericpath",
    "graphlib",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "html.entities",
    "http.cookies",
    "inspect",
    "ipaddress",
    "itertools",
    "json",
    "json.decoder",
    "json.encoder",
    "keyword",
    "linecache",
    "locale",
    "math",
    "mimetypes",
    "ntpath",
    "numbers",
    "opcode",
    "operator",
    "pickletools",
    "plistlib",
    "posixpath",
    "pprint",
    "quopri",
    "random",
    "re",
    "reprlib",
    "sched",
    "secrets",
    "shlex",
    "sre_parse",
    "stat",
    "statistics",
    "string",
    "stringprep",
    "struct",
    "symtable",
    "textwrap",
    "token",
    "tokenize",
    "types",
    "typing",
    "unicodedata",
    "urllib.parse",
    "uuid",
    "weakref",
    "xml.sax.saxutils",
    "zlib",
]
_UNSAFE = re.compile(
    r"write|save|remove|delete|open|exit|kill|system|run|exec|main|input|download|install|sleep|fork|spawn|rename|mkdir|chdir|print|break"
    r"|serve|start|wait|loop|shell|debug|recurs|signal|thread|process|pool|lock|seed|random|rand|token_|uuid|now|today|time|getpass|urandom"
    r"|unlink|rmdir|copy|move|link|chmod|touch|set_|register|unregister|clear|reset|install|patch|warn|log|trace|gc|cache|id\b|test|dump"
)
VALUES = {
    "int": [0, 1, -1, 2, 3, 7, 10, 64, 255, 2**31, -(2**40)],
    "str": [
        "",
        "a",
        "Ab c",
        "12",
        "-3.5",
        "a=b",
        "x,y\nz",
        "2024-01-02",
        "é",
        "  pad ",
        "a/b.txt",
        "%d",
        "<b>&amp;",
        "aGk=",
    ],
    "float": [0.0, -0.0, 1.5, -2.25, 1e300, 0.1, 3.0],
    "bool": [True, False],
    "tuple": [(1, "a"), (0, ""), (5, "5")],
    "pair": [(1, 2), (0, -1), (5, 3), (-7, 2)],
    "texts": [("a", "b"), ("", "x"), ("ab", "a"), ("1", "2")],
    "list": [[1, 2], [3], [0, -1, 5]],
    "dict": [{"a": 1, "b": 2}, {"a": 0, "b": -1}],
}


class TooLong(BaseException):
    """A function runs for too long."""


def _too_long(*_):
    raise TooLong


def functions(names, shuffled=None):
    """Yield the functions of modules, with their names: also the methods of classes, as functions of one argument."""
    seen = set()
    for name in names:
        try:
            module = importlib.import_module(name)
        except BaseException:  # noqa: BLE001 - a module that cannot be imported has no functions
            continue
        found = []
        for key, value in sorted(vars(module).items(), key=lambda item: item[0]):
            holder = vars(value) if isinstance(value, type) else {}
            candidates = [(f"{key}.{inner}", each) for inner, each in holder.items() if inner != "__init__"]
            for path, each in [(key, value), *candidates]:
                if isinstance(each, staticmethod | classmethod):
                    each = each.__func__  # noqa: PLW2901 - what it calls
                if (
                    isinstance(each, types.FunctionType)
                    and each.__code__ not in seen
                    and not _UNSAFE.search(path.lower())
                ):
                    seen.add(each.__code__)
                    found.append((f"{name}.{path}", each))
                    of_pair = _of_pair(each)
                    if of_pair is not None:
                        found.append((f"{name}.{path} of two", of_pair))
        if shuffled is not None:
            shuffled.shuffle(found)
        yield from found


def _of_pair(function):
    """Return a function of a pair that calls another one with both; ``None`` if that does not take two."""
    count, defaults = function.__code__.co_argcount, len(function.__defaults__ or ())
    if not count - defaults <= 2 <= count or function.__code__.co_kwonlyargcount:
        return None
    return lambda pair: function(pair[0], pair[1])


def outcome(call):
    """Return what a call returns, as text with its type, or what it raises."""
    try:
        made = call()
    except TooLong:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return f"raises {shown(error)}"
    return shown(made)


def shown(made):
    """Return a value as text, with its type."""
    try:
        return f"{type(made).__qualname__} {_without_addresses(repr(made))}"
    except BaseException as error:  # noqa: BLE001 - whatever it is
        return f"{type(made).__qualname__} {type(error).__name__}"


def _without_addresses(text):
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def loop_of(function):
    """Return a function whose body is in a generated loop; ``None`` if it is called."""
    text = LoopText("loop", "value")
    step = text.step(None, function, "value")
    if not step.inlined:
        return None
    text.line(f"return {step.expression}", step)
    return text.compile()


def differences(name, function, counts):
    """Yield how the ways to call a function differ."""
    begin = time.process_time()
    try:
        traced = trace(function, None, 1, True)
    except NotVectorizable:
        traced = None
    try:
        trace_flat_map(function, None)
    except NotVectorizable:
        pass
    took = time.process_time() - begin
    if took > MOST:
        yield f"{name}: reading takes {took:.2f} s"
    counts["functions"] += 1
    loop = loop_of(function)
    counts["inlined"] += loop is not None
    counts["read"] += traced is not None
    for kind, values in VALUES.items():
        if name.endswith(" of two") is not (kind in ("pair", "texts")):
            continue
        if loop is None and traced is None:
            return
        plain = [outcome(lambda: function(_fresh(value))) for value in values]  # noqa: B023 - called at once
        again = [outcome(lambda: function(_fresh(value))) for value in values]  # noqa: B023 - called at once
        if plain != again:
            continue  # it depends on more than its argument
        if loop is not None:
            inlined = [outcome(lambda: loop(_fresh(value))) for value in values]  # noqa: B023 - called at once
            if inlined != plain:
                yield f"{name} of {kind}, inlined: {_first(inlined, plain)}"
        schema = _schema(kind, values)
        if traced is not None and schema is not None:
            begin = time.process_time()
            try:
                typed, result = traced.typed(schema)
            except NotVectorizable:
                continue
            if time.process_time() - begin > MOST:
                yield f"{name} of {kind}: types take {time.process_time() - begin:.2f} s"
            counts["typed"] += 1
            for value, expected in zip(values, plain, strict=True):
                try:
                    (made,) = computed(typed.result, result, columns_of([_fresh(value)], schema)).to_list()
                except FallBackToRows:
                    continue
                if shown(made) != expected:
                    yield f"{name} of {kind} {value!r}, on columns: {shown(made)}, called: {expected}"


def _fresh(value):
    return value.copy() if isinstance(value, list | dict) else value


def _schema(kind, values):
    if kind in ("list", "dict"):
        return None
    return schema_of_value(values[0])


def _first(found, plain):
    return next(f"{one}, called: {other}" for one, other in zip(found, plain, strict=True) if one != other)


def check(names, counts, seconds=None, shuffled=None):
    """Yield the differences of all functions of modules."""
    end = None if seconds is None else time.monotonic() + seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        signal.signal(signal.SIGALRM, _too_long)
        for name, function in functions(names, shuffled):
            if end is not None and time.monotonic() > end:
                return
            signal.setitimer(signal.ITIMER_REAL, 3)
            try:
                yield from list(differences(name, function, counts))
            except TooLong:
                counts["too long"] += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)


def modules_of(packages):
    """Yield the modules of packages."""
    for package in packages:
        try:
            paths = importlib.import_module(package).__path__
        except Exception:  # noqa: BLE001 - a module that is no package
            yield package
            continue
        yield package
        for each in pkgutil.walk_packages(paths, f"{package}.", onerror=lambda name: None):
            if not _UNSAFE.search(each.name.lower()):
                yield each.name


def main(seconds, packages):
    """Go through packages for so long, and print what differs."""
    counts = Counter()
    names = modules_of(packages) if packages else MODULES
    for found in check(names, counts, seconds, random.Random(0)):
        print(found[:600], flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])

"""A function in a generated loop runs as if it were called: the same globals, built-ins, frames, tracebacks; called once."""

import builtins
import copy
import datetime
import pickle
import re
import sys
import traceback
import types
import warnings

import pytest

from funken import Configuration, StreamExecutionEnvironment, WatermarkStrategy
from funken.errors import JobExecutionError
from funken.operators.codegen import LoopText, add_frames
from tests.support import streams

PATTERN = re.compile(r"(\w)=(\w)")
DAY = datetime.datetime(2024, 1, 2)  # noqa: DTZ001 - as programs have it
TABLE = {"a": 1}
bare_globals = globals
frame_of_caller = sys._getframe


def loop_of(function, inlined=True):
    text = LoopText("loop", "values")
    step = text.step(None, function, "value")
    assert step.inlined is inlined
    text.line("found = []")
    text.line("for value in values:")
    text.line(f"found.append({step.expression})", step)
    text.close()
    text.line("return found")
    return text.compile()


# ---- what C code asks of the frame that calls it

IMPORTING = {
    "strftime": (lambda day: day.strftime("%Y-%m-%d"), DAY),
    "format": (lambda day: f"{day:%Y-%m}", DAY),
    "strptime": (lambda text: datetime.datetime.strptime(text, "%Y-%m-%d"), "2024-01-02"),  # noqa: DTZ007
    "today": (lambda year: datetime.date.today() > datetime.date(year, 1, 1), 2000),  # noqa: DTZ011
    "sub": (lambda text: PATTERN.sub(r"\2=\1", text), "a=b"),
    "expand": (lambda text: PATTERN.match(text).expand(r"\2"), "a=b"),
    "pickle": (lambda day: pickle.loads(pickle.dumps(day)), DAY),
    "import": (lambda name: __import__(name).__name__, "math"),
    "class": (lambda name: type(name, (), {}).__module__, "Made"),
    "module": (lambda name: __name__, "any"),
    "file": (lambda name: __file__, "any"),
    "sorted": (lambda values: list(map(str, sorted(values))), [2, 1]),
}
CALLED = {"import"}


@pytest.mark.parametrize("name", IMPORTING)
def test_c_code_finds_the_module_of_the_function(name):
    function, argument = IMPORTING[name]

    assert loop_of(function, inlined=name not in CALLED)([argument]) == [function(argument)]


@pytest.mark.parametrize(
    "function",
    [
        lambda value: globals()["__name__"],
        lambda value: sorted(locals()),
        lambda value: eval("value + 1"),
        lambda value: bare_globals()["__name__"],
        lambda value: frame_of_caller().f_code.co_name,
        lambda value: list(map(bare_globals, ())),
        lambda value: list(map(frame_of_caller, [0])),
        lambda value: warnings.warn("old", stacklevel=1),
        lambda value: sys.exc_info(),
    ],
)
def test_what_looks_at_frames_is_called(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert repr(loop_of(function, inlined=False)([1])) != ""


def test_a_built_in_name_that_the_module_gets_is_found(monkeypatch):
    loop = loop_of(lambda value: len(value) + 0)

    assert loop(["abc"]) == [3]
    monkeypatch.setitem(globals(), "len", lambda value: 7)
    assert loop(["abc"]) == [7]


def test_a_built_in_that_is_replaced_is_found(monkeypatch):
    loop = loop_of(lambda value: (hex(value),))

    monkeypatch.setattr(builtins, "hex", lambda value: 7)
    assert loop([1]) == [(7,)]


SHADOWED = """
def zip(*_): raise AssertionError("the program's own")
type = KeyError = bool = append = results = values = value0 = repeat = zip
TABLE = {"a": 1}
add = lambda value: value + TABLE["a"]
key = lambda value: value % TABLE["a"]
both = lambda a, b: a + b + TABLE["a"]
stamp = lambda value, old: value * TABLE["a"]
"""


@pytest.mark.parametrize("parallelism", [1, 2])
def test_names_of_the_program_hide_nothing_of_the_loop(parallelism):
    space = types.ModuleType("shadowed").__dict__
    exec(SHADOWED, space)
    env = StreamExecutionEnvironment.create_local_environment(
        parallelism, Configuration({"pipeline.vectorized": "false"})
    )
    numbers = env.from_collection([1, 2, 3]).map(space["add"]).filter(space["add"])
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(space["stamp"])
    sums = numbers.assign_timestamps_and_watermarks(strategy).key_by(space["key"]).reduce(space["both"])

    assert max(sums.execute_and_collect(limit=9)) == 11


def test_functions_of_two_modules_are_in_one_loop():
    other = {"__name__": "other", "TABLE": {"a": 10}}
    exec("add = lambda value: value + TABLE['a']\nlong = lambda value: str(value)", other)
    text = LoopText("loop", "value")
    steps = [
        text.step(None, function, "value")
        for function in (lambda value: TABLE["a"] + value, *map(other.get, ("add", "long")))
    ]
    text.line(f"return {', '.join(step.expression for step in steps)}")

    assert all(step.inlined for step in steps)
    assert text.compile()(5) == (6, 15, "5")


# ---- errors

ZERO, NOTHING = 0, None


def divides(value):
    return (value, 1 // (value - value))


def over_lines(record):
    return (
        record[0],
        record[1].upper(),
        int(record[0]) + int(record[1]) + int(record[2]),
    )


class Fragile:
    @property
    def broken(self):
        raise LookupError("in a property")

    def __add__(self, other):
        return other / 0


FAILING = {
    "division": (lambda value: (value, value // ZERO), 3),
    "attribute": (lambda value: value.missing, 3),
    "item": (lambda value: value["b"] + value["a"], {"b": 1}),
    "second of two alike": (lambda value: (int(value.pop()), int(value.pop())), ["x", "1"]),
    "conversion": (lambda value: [value, {"n": int(value)}], "x"),
    "a def": (divides, 3),
    "third line": (over_lines, ("1", "2", "x")),
    "second line": (over_lines, ("1", 2, "x")),
    "text": (lambda value: f"{value} {value / 0}", 1),
    "property": (lambda value: value.broken, Fragile()),
    "operator": (lambda value: value + 1, Fragile()),
    "given function": (lambda value: sorted(value)[0] + NOTHING, [1]),
    "iterator": (lambda value: list(map(int, value)), ["1", "x"]),
}


@pytest.mark.parametrize("name", FAILING)
def test_the_traceback_is_that_of_a_call(name):
    function, argument = FAILING[name]
    loop = loop_of(function)
    with pytest.raises(Exception) as called:
        function(copy.copy(argument))
    with pytest.raises(type(called.value)) as failed:
        loop([copy.copy(argument)])
    add_frames(failed.value)

    def shown(error, skipped):
        frames = traceback.extract_tb(error.__traceback__)[skipped:]
        columns = not (name == "text" and sys.version_info < (3, 12))
        return [
            (each.filename, each.name, each.lineno, *((each.colno, each.end_colno) if columns else ()))
            for each in frames
        ]

    assert shown(failed.value, 2) == shown(called.value, 1)
    frame = failed.value.__traceback__.tb_next.tb_next.tb_frame
    assert frame.f_globals is globals()
    assert list(frame.f_locals) == list(function.__code__.co_varnames[:1])


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_function_that_fails_is_called_once(vectorized, monkeypatch):
    log = []
    monkeypatch.setattr(streams, "LOG", log, raising=False)
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    with pytest.raises(JobExecutionError, match="at the record 0: ZeroDivisionError") as failed:
        env.from_collection([3, 2, 1, 0]).map(
            lambda value: (streams.LOG.append(value), 6 // value)
        ).execute_and_collect(limit=9)

    assert log == [3, 2, 1, 0]
    assert "(streams.LOG.append(value), 6 // value)" in "".join(traceback.format_exception(failed.value))


def test_iterators_that_fail_belong_to_no_function():
    text = LoopText("loop", "values")
    step = text.step(None, lambda value: map(int, value), "value")
    text.line("for value in values:")
    text.line(f"made = {step.expression}", step)
    text.line("for each in made:", step)
    text.line("pass")

    with pytest.raises(ValueError, match="invalid literal") as failed:
        text.compile()([["x"]])
    add_frames(failed.value)
    assert len(traceback.extract_tb(failed.value.__traceback__)) == 2


def test_inlining_can_be_switched_off():
    def plan(inlining):
        env = StreamExecutionEnvironment.create_local_environment(
            1, Configuration({"pipeline.vectorized": False, "pipeline.inlining": inlining})
        )
        env.from_collection([1]).map(lambda value: value + 1).map(lambda value: value + 2).print()
        return env.explain()

    assert "one loop: map (inlined) + map (inlined)" in plan(True)
    assert "one loop: map + map" in plan(False)
    assert "inlined" not in plan(False)


def test_without_inlining_functions_are_called():
    assert not LoopText("loop", "value", inlining=False).step(None, lambda value: value, "value").inlined


def test_the_option_reaches_the_loops():
    def frames(inlining):
        env = StreamExecutionEnvironment.create_local_environment(
            1, Configuration({"pipeline.vectorized": False, "pipeline.inlining": inlining})
        )
        with pytest.raises(JobExecutionError) as failed:
            env.from_collection([0]).map(lambda value: 1 // value).execute_and_collect(limit=1)
        cause = failed.value.__cause__
        return [each.name for each in traceback.extract_tb(cause.__traceback__)] if cause else []

    assert frames(True) == frames(False)

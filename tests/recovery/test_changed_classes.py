"""Jobs that start from a savepoint with another definition of a class in their state, by place in the state and by backend."""

from __future__ import annotations

import json
import logging
import sys
import types
from pathlib import Path

import pytest
from click.testing import CliRunner

from funken import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    DataGeneratorSource,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StreamExecutionEnvironment,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
)
from funken.cli.main import main
from funken.errors import CheckpointIncompatible

MODULE = "accs_of_a_job"
IMPORTS = "import dataclasses, typing\nfrom dataclasses import dataclass, field\n"
BEFORE = """
@dataclass(frozen=True, slots=True)
class Acc:
    a: int
    b: str
class Pair(typing.NamedTuple):
    x: int
    y: str
@dataclass
class Open:
    n: int
"""
AFTER = """
@dataclass(frozen=True, slots=True)
class Acc:
    b: str
    c: int = 7
    a: int = 0
class Pair(typing.NamedTuple):
    y: str
    x: int
@dataclass
class Open:
    n: int
    more: list = field(default_factory=list)
"""
REFUSED = BEFORE.replace("    b: str\n", "    b: str\n    must: int\n")


class Seen:
    """A dict that the functions of a program find, however they travel."""

    def __getattr__(self, name):
        return getattr(vars(sys).setdefault("_seen_by_program", {}), name)

    def __getitem__(self, name):
        return vars(sys)["_seen_by_program"][name]

    def __setitem__(self, name, value):
        vars(sys)["_seen_by_program"][name] = value

    def __contains__(self, name):
        return name in vars(sys).get("_seen_by_program", {})

    def __iter__(self):
        return iter(vars(sys).get("_seen_by_program", {}))

    def __len__(self):
        return len(vars(sys).get("_seen_by_program", {}))


SEEN = Seen()


def define(code):
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    exec(IMPORTS + code, vars(module))


@pytest.fixture(autouse=True)
def _program(caplog):
    SEEN.clear()
    caplog.set_level(logging.ERROR)
    yield
    sys.modules.pop(MODULE, None)


def new():
    made = sys.modules[MODULE]
    return [made.Acc(a=1, b="x"), made.Pair(x=2, y="y"), made.Open(n=3)]


class Keyed(KeyedProcessFunction):
    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value"))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map"))

    def process_element(self, value, ctx):
        key = ctx.get_current_key()
        if self.value.value() is None:
            self.value.update(new())
            self.list.add_all(new())
            self.map.put("m", new())
        else:
            SEEN.setdefault("value", self.value.value())
            SEEN.setdefault("list", list(self.list.get()))
            SEEN.setdefault("map", self.map.get("m"))
        SEEN.setdefault(f"began {key}", True)
        yield key


class OfOperator(CheckpointedFunction):
    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.split = store.get_list_state(ListStateDescriptor("split"))
        self.union = store.get_union_list_state(ListStateDescriptor("union"))
        if context.is_restored():
            SEEN["split"], SEEN["union"] = list(self.split.get()), list(self.union.get())

    def snapshot_state(self, context):
        self.split.update(new())
        self.union.update(new())

    def map(self, value):
        SEEN["mapped"] = True
        return value


RULES = MapStateDescriptor("rules")


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        found = ctx.get_broadcast_state(RULES).get("r")
        if found is not None:
            SEEN["rules"] = found
        return ()

    def process_broadcast_element(self, value, ctx):
        if ctx.get_broadcast_state(RULES).get("r") is None:
            ctx.get_broadcast_state(RULES).put("r", new())
        SEEN["broadcast"] = True
        return ()


def window_of(one, other):
    if len(other) > 3:
        SEEN["window"] = one[:3]
    return one


def start(backend, folder, path=None):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    options = env.get_configuration()
    options.set("state.backend.type", backend)
    options.set("execution.checkpointing.savepoint-dir", str(folder / "savepoints"))
    if path is not None:
        options.set("execution.state-recovery.path", path)
    numbers = env.from_source(DataGeneratorSource(lambda i: i, None, 2000)).uid("numbers")
    numbers.key_by(lambda n: n % 3).process(Keyed()).uid("keyed").map(OfOperator()).uid("own").for_each(len_of)
    numbers.connect(numbers.broadcast(RULES)).process(Rules()).uid("rules").for_each(len_of)
    windows = numbers.map(lambda n: [*new(), *((n,) if path else ())]).key_by(lambda _: 1)
    windows.window(TumblingProcessingTimeWindows.of(10**12)).reduce(window_of).uid("windows").for_each(len_of)
    return env.execute_async("changed classes")


def len_of(value):
    return None


def wait(*names):
    import time

    until = time.monotonic() + 20
    while not all(name in SEEN for name in names):
        assert time.monotonic() < until, (names, list(SEEN))
        time.sleep(0.01)  # the source goes on by itself


def savepoint(backend, folder):
    define(BEFORE)
    client = start(backend, folder)
    wait("began 0", "began 1", "began 2", "mapped", "broadcast")
    path = client.stop_with_savepoint(False, str(folder / "savepoints")).result(60)
    SEEN.clear()
    return path


@pytest.mark.parametrize("after", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("before", ["hashmap", "rocksdb"])
def test_fields_are_found_by_name_wherever_the_object_is(before, after, tmp_path):
    path = savepoint(before, tmp_path)
    define(AFTER)
    made = sys.modules[MODULE]
    expected = [made.Acc(a=1, b="x", c=7), made.Pair(y="y", x=2), made.Open(3, [])]
    client = start(after, tmp_path, path)
    try:
        wait("value", "list", "map", "split", "union", "rules", "window")
        again = client.trigger_savepoint(str(tmp_path / "again")).result(60)
    finally:
        client.cancel().result(60)
    assert SEEN["value"] == SEEN["list"] == SEEN["map"] == SEEN["rules"] == SEEN["window"] == expected
    assert SEEN["split"] == expected[: len(SEEN["split"])] or len(SEEN["split"]) == 3
    assert [each for each in SEEN["union"] if type(each) is made.Acc] == [expected[0]] * 2
    SEEN.clear()
    client = start(before, tmp_path, again)
    try:
        wait("value", "rules")
    finally:
        client.cancel().result(60)
    assert SEEN["value"] == SEEN["rules"] == expected


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_what_cannot_be_told_is_refused_before_the_first_record(backend, tmp_path):
    path = savepoint(backend, tmp_path)
    define(REFUSED)
    with pytest.raises(CheckpointIncompatible) as refused:
        start(backend, tmp_path, path).get_job_execution_result().result(60)
    text = str(refused.value)
    assert "cannot be restored: the class accs_of_a_job.Acc has changed since the state was saved" in text
    assert "the field 'must' is new and has no default" in text and "operator '" in text
    assert not SEEN


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_show_tells_of_values_whose_class_is_not_there_or_has_changed(backend, tmp_path):
    path = savepoint(backend, tmp_path)

    def shown():
        done = CliRunner().invoke(main, ["state", "show", path, "--operator", "keyed", "--state", "value", "--json"])
        assert done.exit_code == 0, done.output
        return [entry["value"] for entry in json.loads(done.output)]

    define(BEFORE)
    assert shown() == ["[Acc(a=1, b='x'), Pair(x=2, y='y'), Open(n=3)]"] * 3
    define(AFTER)
    assert shown() == ["[Acc(b='x', c=7, a=1), Pair(y='y', x=2), Open(n=3, more=[])]"] * 3
    define(REFUSED)
    assert shown() == ["[<accs_of_a_job.Acc, which has changed since: a=1, b='x'>, Pair(x=2, y='y'), Open(n=3)]"] * 3
    del sys.modules[MODULE]
    (text, *_) = shown()
    assert text.startswith(
        "[<accs_of_a_job.Acc, which cannot be imported (ModuleNotFoundError: No module named 'accs_of_a_job')"
    )
    done = CliRunner().invoke(main, ["state", "show", path, "--limit", "100"])
    assert done.exit_code == 0, done.output
    assert Path(path).exists()

"""Functions that change records: what comes of it on columns is what comes of it with records, and nobody else sees it."""

import copy
import dataclasses
import traceback
from typing import Any, NamedTuple

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    DiscardingSink,
    Row,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.kernels.columns import FallBackToRows, columns_of
from funken.columnar.kernels.evaluation import computed
from funken.columnar.tracing import trace
from funken.expr.types import DATACLASS, DICT, INT, NAMED_TUPLE, ROW, STR, Record, Tuple

COUNT = 60
UNTIMED = WatermarkStrategy.no_watermarks()


@dataclasses.dataclass
class Visit:
    user: str
    n: int


@dataclasses.dataclass(frozen=True)
class Frozen:
    user: str
    n: int


class Pair(NamedTuple):
    user: str
    n: int


SALE = Record((STR, INT, Record((INT, STR), DICT, ("x", "y"))), DICT, ("user", "n", "inner"))
SALES = [{"user": "abc"[n % 3], "n": n, "inner": {"x": -n, "y": "q"}} for n in range(7)]
FLAT = Tuple((STR, INT))
VISITS = [Visit("abc"[n % 3], n) for n in range(7)]
ROWS = [Row(user="abc"[n % 3], n=n) for n in range(7)]


def as_python(function: Any, records: list[Any]) -> list[Any]:
    return [function(copy.deepcopy(record)) for record in records]


def on_columns(function: Any, records: list[Any], schema: Any) -> list[Any]:
    traced, kind = trace(function, None, 1, changes=True).typed(schema)
    return computed(traced.result, kind, columns_of(records, schema)).to_list()


def sets(r: Any) -> Any:
    r["total"] = r["n"] * 2
    return r


def adds(r: Any) -> Any:
    r["n"] += 1
    r["n"] *= 2
    return r


def sets_twice(r: Any) -> Any:
    r["n"] = str(r["n"])
    r["m"] = r["n"] + "!"
    return r


def copies(r: Any) -> Any:
    new = dict(r)
    new["total"] = 1
    return (new["total"], new["n"]), r


def copies_with(r: Any) -> Any:
    new = dict(r, total=1)
    other = r.copy()
    other.update(total=r["n"], user="x")
    return (new["total"], new["user"]), (other["total"], other["user"]), r


def has_two_names(r: Any) -> Any:
    same = r
    same["z"] = 1
    return r


def deletes(r: Any) -> Any:
    del r["user"]
    return r


def pops(r: Any) -> Any:
    user = r.pop("user")
    r["who"] = user + "!"
    return r


def pops_with_default(r: Any) -> Any:
    r["a"] = r.pop("nothing", 7)
    r["b"] = r.pop("n", 8)
    return r


def branches(r: Any) -> Any:
    if r["n"] > 3:
        r["large"] = True
    else:
        r["large"] = False
    return r


def changes_what_may_be_another(r: Any) -> Any:
    other = dict(r, z=1)
    found = r if r["n"] else other
    r["z"] = 2
    return found


def keeps_what_was_read(r: Any) -> Any:
    inner, n = r["inner"], r["n"]
    r["inner"] = 0
    r["n"] = -1
    return r, inner, n


def updates(r: Any) -> Any:
    r.update({"a": 1, "n": "t"})
    r.update(r["inner"], y=2)
    return r


def divides_for_nothing(r: Any) -> Any:
    r["t"] = 10 // (r["n"] + 1)
    return r["user"]


def begins_with_nothing(r: Any) -> Any:
    out = {}
    for name in ("user", "n"):
        out[f"{name}_2"] = r[name]
    return out


def helper(r: Any) -> Any:
    new = dict(r)
    new["h"] = 1
    return new


def changes_what_a_helper_made(r: Any) -> Any:
    new = helper(r)
    new["n"] = 0
    return new["n"], r


@pytest.mark.parametrize(
    "function",
    [
        changes_what_may_be_another, sets, adds, sets_twice, copies, copies_with, has_two_names, deletes, pops, pops_with_default,
        branches, keeps_what_was_read, updates, divides_for_nothing, begins_with_nothing, changes_what_a_helper_made,
    ],
)  # fmt: skip
def test_dicts_that_are_changed(function):
    assert repr(on_columns(function, SALES, SALE)) == repr(as_python(function, SALES))


def adds_an_attribute(v: Any) -> Any:
    v.n += 1
    return v


def sets_an_item(v: Any) -> Any:
    v["n"] = v["n"] * 2
    return v


@pytest.mark.parametrize(
    ("function", "records", "form"),
    [(adds_an_attribute, VISITS, DATACLASS), (adds_an_attribute, ROWS, ROW), (sets_an_item, ROWS, ROW)],
)
def test_dataclasses_and_rows_that_are_changed(function, records, form):
    schema = Record(FLAT, form, ("user", "n"), Visit if form == DATACLASS else None)

    assert repr(on_columns(function, records, schema)) == repr(as_python(function, records))


def changes_what_is_in_another(r: Any) -> Any:
    other = {"k": r}
    r["z"] = 1
    return other


def changes_what_is_an_item(r: Any) -> Any:
    first = (r, 1)[0]
    r["z"] = 1
    return first


def changes_what_is_in_a_list(r: Any) -> Any:
    pairs = [(r, letter) for letter in r["user"].split("b")]
    r["z"] = 1
    return pairs


def changes_what_may_be_the_largest(r: Any) -> Any:
    best = max([r, dict(r, n=3)], key=lambda each: each["n"])
    r["n"] = 9
    return best


def changes_what_is_in_what_it_copies(r: Any) -> Any:
    new = {**{"k": r}, "n": 1}
    r["z"] = 1
    return new


def changes_what_a_sum_has(r: Any) -> Any:
    pair = (r,) + (1,)  # noqa: RUF005
    r["z"] = 1
    return pair


def changes_what_is_in_it(r: Any) -> Any:
    r["inner"]["x"] = 1
    return r


def changes_by_a_computed_name(r: Any) -> Any:
    r[r["user"]] = 1
    return r


def setting_helper(r: Any) -> Any:
    r["h"] = 1
    return r


def lets_a_helper_change_it(r: Any) -> Any:
    setting_helper(r)
    return r


def changes_in_a_loop(r: Any) -> Any:
    for letter in r["user"].split("b"):
        r["n"] = letter
    return r


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        *(
            (each, "changes a record that is in another")
            for each in (
                changes_what_is_in_another,
                changes_what_is_an_item,
                changes_what_is_in_a_list,
                changes_what_may_be_the_largest,
                changes_what_is_in_what_it_copies,
                changes_what_a_sum_has,
            )
        ),
        (changes_what_is_in_it, "changes an item"),
        (changes_by_a_computed_name, "changes an item that is no constant text"),
        (lets_a_helper_change_it, r"calls setting_helper\(\), which changes an item"),
        (changes_in_a_loop, "changes an item"),
    ],
)
def test_what_others_may_have_is_not_changed_on_columns(function, reason):
    with pytest.raises(NotVectorizable, match=f"^{reason}$"):
        on_columns(function, SALES, SALE)


@pytest.mark.parametrize(
    ("function", "schema", "reason"),
    [
        (adds_an_attribute, Record(FLAT, DATACLASS, ("user", "n"), Frozen), "which is frozen"),
        (adds_an_attribute, Record(FLAT, NAMED_TUPLE, ("user", "n"), Pair), "changes Pair"),
        (adds_an_attribute, SALE, "uses the attribute 'n' of"),
        (sets, Record(FLAT, ROW, ("user", "n")), "sets 'total', which Row.* has not"),
        (deletes, Record(FLAT, ROW, ("user", "n")), "changes Row"),
        (pops, Record((INT,), DICT, ("n",)), "takes (the item )?'user'"),
    ],
)
def test_what_python_refuses_or_cannot_be_known_stays_with_records(function, schema, reason):
    with pytest.raises(NotVectorizable, match=reason):
        trace(function, None, 1, changes=True).typed(schema)


def test_without_leave_an_argument_is_not_changed():
    with pytest.raises(NotVectorizable, match="^changes an item$"):
        trace(sets, None, 1)


# ---- exceptions


class Rejected(Exception):
    pass


def raises_if_negative(r: Any) -> Any:
    if r["n"] < 0:
        raise Rejected(f"{r['user']} is negative")
    return r["n"] * 2


def raises_in_branches(r: Any) -> Any:
    if r["n"] > 3:
        if r["user"] == "z":
            str.upper("said before")
            raise Rejected
        return "large"
    return "small"


def asserts(r: Any) -> Any:
    assert r["user"], "no user"
    return r["user"]


def raises_without_a_value(r: Any) -> Any:
    value = r.get("none")
    if value is None:
        raise Rejected
    return value


@pytest.mark.parametrize("function", [raises_if_negative, raises_in_branches, asserts])
def test_functions_that_raise_run_on_columns_where_they_do_not(function):
    assert on_columns(function, SALES, SALE) == as_python(function, SALES)


def test_where_a_record_makes_them_raise_the_block_is_left_to_records():
    with pytest.raises(FallBackToRows, match="a record for which an exception is raised"):
        on_columns(raises_if_negative, [*SALES, {"user": "d", "n": -1, "inner": {"x": 1, "y": ""}}], SALE)


def test_what_always_raises_has_no_columns():
    with pytest.raises(NotVectorizable, match="^always raises an exception$"):
        trace(raises_without_a_value, None, 1).typed(SALE)


# ---- programs


def env_of(vectorized: bool) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))


def test_what_was_given_is_not_changed_on_columns():
    with pytest.raises(NotVectorizable, match="^changes a record after it was emitted$"):
        trace_flat_map(emitted_and_changed, None)


def made(n: int) -> Any:
    return {"user": f"u{n % 3}", "n": n}


def results(build: Any, vectorized: bool) -> list[str]:
    stream = build(env_of(vectorized).from_source(DataGeneratorSource(made, COUNT), UNTIMED, "made"))
    return [repr(each) for each in stream.execute_and_collect(limit=COUNT * 4)]


def emitted_and_changed(r: Any) -> Any:
    yield r
    r["n"] = -1
    yield r


def one_for_each(r: Any) -> Any:
    for name in ("a", "b"):
        new = dict(r)
        new["name"] = name
        yield new


def total(one: Any, other: Any) -> Any:
    one["n"] += other["n"]
    return one


PROGRAMS = {
    "map": lambda made: made.map(sets).filter(lambda r: r["total"] % 3 == 0),
    "two consumers": lambda made: made.map(sets).union(
        made.map(lambda r: {"user": r["user"], "n": r["n"], "total": 0})
    ),
    "a reduce": lambda made: made.key_by(lambda r: r["user"]).reduce(
        lambda one, other: {"user": one["user"], "n": one["n"] + other["n"]}
    ),
    "a reduce that changes": lambda made: made.key_by(lambda r: r["user"]).reduce(total),
    "emitted and changed": lambda made: made.flat_map(emitted_and_changed),
    "one for each": lambda made: made.flat_map(one_for_each),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_they_give_with_records(name):
    build = PROGRAMS[name]

    assert sorted(results(build, True)) == sorted(results(build, False))
    env = env_of(True)
    build(env.from_source(DataGeneratorSource(made, COUNT), UNTIMED, "made")).sink_to(DiscardingSink())
    if name != "emitted and changed":
        assert "per record" not in env.explain()


def test_an_exception_has_the_record_and_the_traceback_of_the_function():
    def rejects(r: Any) -> Any:
        if r["n"] == 41:
            raise Rejected(f"record {r['n']}")
        return r

    stream = env_of(True).from_source(DataGeneratorSource(made, COUNT), UNTIMED, "made").map(rejects)
    with pytest.raises(Exception, match="record 41") as raised:
        stream.execute_and_collect(limit=COUNT)
    assert "in rejects" in "".join(traceback.format_exception(raised.value))


def test_a_flat_map_that_raises_runs_on_columns():
    def words(r: Any) -> Any:
        if r["n"] < 0:
            raise Rejected
        yield r["user"], r["n"]

    traced, kind = trace_flat_map(words, None).typed(Record((STR, INT), DICT, ("user", "n")))

    assert kind == Tuple((STR, INT))
    assert any(not each.emits for each in traced.emissions)

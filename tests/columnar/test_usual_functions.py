"""Functions as programs have them, one line or a few: on columns they give what Python gives."""

# ruff: noqa: UP031, UP032, F507, F521, F523, F525, RUF015, UP028, UP030 - what is read are these formats and loops

import base64
import hashlib
import operator
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.kernels.columns import FallBackToRows, columns_of
from funken.columnar.kernels.evaluation import computed
from funken.columnar.tracing import trace
from funken.columnar.vectorized.results import columns_of_alike
from funken.expr.types import DICT, FLOAT, INT, STR, Record, Tuple

COUNTRIES = {"DE": ("Germany", "EU", 49), "US": ("USA", "NA", 1)}
USERS = {"u1": {"name": "Ann", "age": 33}, "u2": {"name": "Bob", "age": 29}, "u3": {"name": "Cy", "age": 1}}
PLACES = {1: (0.5, True), 2: (1.5, False)}
TEMPLATE = "{0}-{1}-{0}"

RECORDS = [
    {
        "user": f"u{n % 3 + 1}", "n": n, "amount": n * 1.75 - 9, "tags": ["a", "b", "c"][: n % 4],
        "country": ["DE", "US", "FR"][n % 3],
        "line": f"x{n} y z"[: 5 + n % 4], "inner": {"x": n, "y": f"s{n}"}, "ok": n % 2 == 0, "opt": None if n % 5 == 0 else n,
    }
    for n in range(40)
]  # fmt: skip

FUNCTIONS = {
    # formats
    "percent": lambda r: "%s has %d, %.2f and %5d%%" % (r["user"], r["n"], r["amount"], r["n"]),
    "percent of one": lambda r: "n=%s" % r["n"],
    "percent with flags": lambda r: "%-6s|%6s|%05d|%+d|%-4d|%x|%08.3f|%e|%.3s" % (
        r["user"], r["user"], r["n"], r["n"], r["n"], r["n"], r["amount"], r["amount"], r["line"]),
    "percent of other types": lambda r: "%s %s %s %d %d %r" % (r["ok"], r["opt"], r["amount"], r["ok"], r["amount"], r["user"]),
    "format": lambda r: "{} has {:.1f}".format(r["user"], r["amount"]),
    "format by number": lambda r: TEMPLATE.format(r["user"], r["n"]),
    "format by name": lambda r: "{user!r:>6}: {n:04d} {{}}".format(user=r["user"], n=r["n"]),
    # ranges, maps, filters
    "a sum over a range": lambda r: sum(k * r["n"] for k in range(3)),
    "a list of a range": lambda r: [k + r["n"] for k in range(r["n"] % 3)],
    "a range with steps": lambda r: list(range(r["n"], 0, -7)),
    "map str": lambda r: ",".join(map(str, [r["n"], r["amount"]])),
    "map over a list": lambda r: [len(t) for t in map(lambda t: t * 2, r["tags"])],
    "map int": lambda r: sum(map(int, ["1", "2", "3"])) + r["n"],
    "filter": lambda r: list(filter(None, r["line"].split(" "))),
    "filter by a function": lambda r: len(list(filter(lambda t: t > "a", r["tags"]))),
    "divmod": lambda r: divmod(r["n"], 7),
    "hex and others": lambda r: (hex(r["n"]), bin(r["n"]).count("1"), oct(r["n"])),
    # tables of records
    "a table of tuples": lambda r: COUNTRIES.get(r["country"], ("?", "?", 0))[1],
    "all of a tuple": lambda r: COUNTRIES.get(r["country"], ("?", "?", 0)),
    "an item of a table": lambda r: USERS[r["user"]]["name"],
    "a record of a table": lambda r: USERS[r["user"]],
    "a field, or none": lambda r: USERS.get(r["country"], {}).get("name", "?"),
    "a field of a key": lambda r: USERS.get(r["user"], {}).get("age", -1),
    "a field that none has": lambda r: USERS.get(r["user"], {}).get("size", -1),
    "a table of ints": lambda r: PLACES.get(r["n"], (0.0, False)),
    "in a table": lambda r: r["country"] in COUNTRIES,
    # others
    "a nested default": lambda r: r.get("inner", {}).get("x", 0) + r.get("nothing", {}).get("x", 7),
    "a hash": lambda r: hashlib.md5(r["user"].encode()).hexdigest()[:8],
    "a hash of bytes": lambda r: hashlib.sha256(r["line"].encode("utf-8")).digest(),
    "a checksum": lambda r: zlib.crc32(r["user"].encode()) % 4,
    "base64": lambda r: base64.b64encode(r["user"].encode()).decode("ascii"),
    "a dict of arguments": lambda r: dict(r["inner"], z=1),
    "itemgetter": operator.itemgetter("user", "n"),
    "one item": operator.itemgetter("amount"),
}  # fmt: skip


def unpacks_the_rest(r: Any) -> Any:
    first, *rest = r["line"].split(" ")
    return first, len(rest), rest


def unpacks_the_beginning(r: Any) -> Any:
    *begin, last = r["line"].split(" ")
    return last, "".join(begin)


def unpacks_a_map(r: Any) -> Any:
    one, two = map(len, ["ab", r["user"]])
    return one + two


def adds_in_a_loop(r: Any) -> Any:
    total = 0
    for a, b in [(1, 2), (3, 4), (5, 6)]:
        if r["n"] == a:
            continue
        if r["n"] == b:
            break
        total += a * b
    return total


def returns_in_a_loop(r: Any) -> Any:
    for name in ("n", "amount"):
        if r[name] > 20:
            return name
    return ""


def counts_in_a_range(r: Any) -> Any:
    found = 0
    for k in range(5):
        if r["n"] % (k + 1) == 0:
            found += 1
    return found


FUNCTIONS |= {
    each.__name__: each
    for each in (
        unpacks_the_rest,
        unpacks_the_beginning,
        unpacks_a_map,
        adds_in_a_loop,
        returns_in_a_loop,
        counts_in_a_range,
    )
}


def on_columns(function: Any, records: list[Any]) -> list[Any]:
    block = columns_of_alike(records)
    traced, schema = trace(function, None, 1).typed(block.schema)
    return computed(traced.result, schema, block).to_list()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_what_python_gives(name):
    function = FUNCTIONS[name]

    assert repr(on_columns(function, RECORDS)) == repr([function(record) for record in RECORDS])


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda r: "%s %s" % r["user"], "too few values"),
        (lambda r: "%s" % (r["user"], 1), "too many values"),
        (lambda r: "%(user)s" % r, "formats a text with '%"),
        (lambda r: "%d" % r["user"], "formats str with %d"),
        (lambda r: "%s" % r["inner"], r"calls str\(\) with"),
        (lambda r: "{.x}".format(r["inner"]), "the field '.x'"),
        (lambda r: "{:{}}".format(r["n"], 4), "the field '0'"),
        (lambda r: "{} {1}".format(r["n"], 4), "numbers some of its fields"),
        (lambda r: "{".format(r["n"]), "malformed"),
        (lambda r: COUNTRIES.get(r["country"]), "gives sometimes|uses|looks up|calls"),
        (lambda r: USERS.get(r["country"], {}).get("name", 1), "gives sometimes str and sometimes int"),
        (lambda r: hashlib.md5(r["user"].encode()), "makes a hash"),
        (lambda r: range(r["n"]), "uses a range"),
        (lambda r: map(str, r["tags"]), "uses a map"),
        (lambda r: (r["n"], {}), "makes an empty dict"),
    ],
)
def test_what_has_no_columns_says_why(function, reason):
    with pytest.raises(NotVectorizable, match=reason):
        on_columns(function, RECORDS)


@pytest.mark.parametrize(
    "function",
    [
        lambda r: "{0}".format(r["user"], 1 // r["n"]),
        lambda r: COUNTRIES[r["country"]][0],
        lambda r: [a for a, *_ in [r["line"].split(" ")]][0] if r["n"] < 0 else r["tags"][0],
    ],
)
def test_what_raises_for_a_record_is_left_to_python(function):
    with pytest.raises(FallBackToRows):
        on_columns(function, RECORDS)


def leaves_out_an_item_that_raises(r: Any) -> Any:
    for k in (1, 2, r["line"].index("y z")):
        if k > 1:
            break
    return k


def test_items_of_a_display_are_evaluated_before_a_loop_over_it():
    assert on_columns(leaves_out_an_item_that_raises, RECORDS[3:4]) == [2]
    with pytest.raises(FallBackToRows):
        on_columns(leaves_out_an_item_that_raises, RECORDS)


def goes_twice_through_a_generator(r: Any) -> Any:
    tags = (tag for tag in r["tags"])
    return [tag for tag in tags], [tag for tag in tags]


def goes_twice_through_a_map(r: Any) -> Any:
    texts, found = map(str, (1, r["n"])), ""
    if r["n"] > 2:
        for text in texts:
            found += text
    for text in texts:
        found += text
    return found


@pytest.mark.parametrize("function", [goes_twice_through_a_generator, goes_twice_through_a_map])
def test_what_gives_its_items_once_is_not_gone_through_twice(function):
    with pytest.raises(NotVectorizable):
        on_columns(function, RECORDS)


def goes_once_on_each_path(r: Any) -> Any:
    texts, found = map(str, (1, r["n"])), ""
    if r["n"] > 2:
        for text in texts:
            found += text
    else:
        for text in texts:
            found = text + found
    return found


def goes_twice_through_a_range(r: Any) -> Any:
    numbers, total = range(3), r["n"]
    for number in numbers:
        total += number
    for number in numbers:
        total += number
    return total


@pytest.mark.parametrize("function", [goes_once_on_each_path, goes_twice_through_a_range])
def test_what_may_be_gone_through_is(function):
    assert on_columns(function, RECORDS) == [function(record) for record in RECORDS]


def test_a_table_that_changes_is_seen():
    table = {"a": {"n": 1}, "b": {"n": 2}}

    def read(key: Any) -> Any:
        return table[key]["n"]

    traced = trace(read, None, 1)
    assert traced.holds(read)
    table["a"]["n"] = 3
    assert not traced.holds(read)


@given(st.text(max_size=6), st.integers(-(2**40), 2**40), st.floats(allow_nan=True))
def test_formats_write_what_python_writes(text, number, real):
    record, schema = (text, number, real), Tuple((STR, INT, FLOAT))

    def written(r: Any) -> Any:
        one = "%-5s|%5s|%s|%d|%06d|%+d|%.3f|%g" % (r[0], r[0], r[2], r[1], r[1], r[1], r[2], r[2])
        return one + "{:>4}{:,}{:.2e}".format(r[0], r[1], r[2])

    traced, kind = trace(written, None, 1).typed(schema)

    assert computed(traced.result, kind, columns_of([record], schema)).to_list() == [written(record)]


def for_each_of_a_range(r: Any) -> Any:
    for k in range(3):
        yield r["user"], r["n"] + k


def for_as_many_as_it_says(r: Any) -> Any:
    for k in range(r["n"] % 3):
        yield k


def starts_of_windows(r: Any) -> Any:
    for start in range(r["n"] - r["n"] % 10, r["n"] - 25, -10):
        yield r["user"], start


@pytest.mark.parametrize("function", [for_each_of_a_range, for_as_many_as_it_says, starts_of_windows])
def test_flat_maps_over_ranges_are_traced(function):
    trace_flat_map(function, None).typed(Record((STR, INT), DICT, ("user", "n")))


# ---- loops over dicts whose names are known


def without_some(r: Any) -> Any:
    return {name: value for name, value in r.items() if name not in ("tags", "inner") and not name.startswith("l")}


def with_other_names(r: Any) -> Any:
    return {f"{name}_of_inner": value for name, value in r["inner"].items()}


def some_of_it(r: Any) -> Any:
    return {name: r[name] for name in ("user", "n")}


def built_of_items(r: Any) -> Any:
    out = {}
    for name, value in r["inner"].items():
        if name == "x":
            continue
        out[name + "_2"] = value
    out["sum"] = sum(value for name, value in r.items() if name == "n")
    return out


def changed_copy(r: Any) -> Any:
    new = {name: value for name, value in r["inner"].items()}
    new["z"] = 1
    return new


def names_and_values(r: Any) -> Any:
    return (
        [name for name in r if name > "m"],
        ",".join(f"{k}={v}" for k, v in r["inner"].items()),
        list(r["inner"].keys()),
    )


def depends_on_a_value(r: Any) -> Any:
    return {name: value for name, value in r.items() if value is not None}


def has_computed_names(r: Any) -> Any:
    return {value: name for name, value in r["inner"].items()}


@pytest.mark.parametrize(
    "function", [without_some, with_other_names, some_of_it, built_of_items, changed_copy, names_and_values]
)
def test_loops_over_dicts(function):
    block = columns_of_alike(RECORDS)
    traced, schema = trace(function, None, 1, schema=block.schema).typed(block.schema)

    assert repr(computed(traced.result, schema, block).to_list()) == repr([function(each) for each in RECORDS])


@pytest.mark.parametrize(
    ("function", "reason"), [(depends_on_a_value, "makes a list"), (has_computed_names, "makes a dict of items")]
)
def test_dicts_whose_names_depend_on_values(function, reason):
    with pytest.raises(NotVectorizable, match=reason):
        trace(function, None, 1, schema=columns_of_alike(RECORDS).schema)


def test_without_a_schema_a_dict_is_not_looped_over():
    with pytest.raises(NotVectorizable):
        trace(without_some, None, 1)


def unpivoted(r: Any) -> Any:
    for name, value in r["inner"].items():
        if name != "y":
            yield r["user"], name, value


def test_a_flat_map_over_items_is_traced():
    schema = columns_of_alike(RECORDS).schema
    traced, kind = trace_flat_map(unpivoted, None, schema).typed(schema)

    assert kind == Tuple((STR, STR, INT))
    assert [each.guards for each in traced.emissions if each.emits] == [()]

"""Lists as columns, what is asked of them, and comprehensions over them: what Python gives."""

import operator
import pickle
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.kernels.columns import Column, Columns, column_of, columns_of, joined
from funken.columnar.kernels.evaluation import FallBackToRows, computed
from funken.columnar.keyed.codec import decode_block, encode_block
from funken.columnar.keyed.relational import size_of
from funken.columnar.records import NOT_READ, fits
from funken.columnar.tracing import trace
from funken.columnar.typed.operations import ITEMS
from funken.expr.types import (
    BOOL,
    DICT,
    DOCUMENT,
    FLOAT,
    INT,
    STR,
    ListOf,
    Optional,
    Record,
    Tuple,
    has_documents,
    optional,
)

ITEM = Record((STR, FLOAT, ListOf(INT)), DICT, ("sku", "price", "marks"))
ORDER = Record((INT, ListOf(ITEM), ListOf(STR), ListOf(BOOL)), DICT, ("id", "items", "tags", "flags"))
items = st.tuples(st.sampled_from(["tea", "né", ""]), st.floats(0, 9), st.lists(st.integers(-9, 9), max_size=3)).map(
    lambda values: dict(zip(ITEM.names, values, strict=True))
)
orders = st.tuples(
    st.integers(-5, 5), st.lists(items, max_size=4), st.lists(st.sampled_from(["new", "old", "é"]), max_size=3),
    st.lists(st.booleans(), max_size=3),
).map(lambda values: dict(zip(ORDER.names, values, strict=True)))  # fmt: skip
FACTOR = 3


def test_a_kind_of_lists_is_a_text_with_the_schema_of_the_items() -> None:
    kinds = [ListOf(INT), ListOf(ITEM), ListOf(ListOf(STR)), optional(ListOf(INT)), ListOf(Optional(INT))]

    assert [str(kind) for kind in kinds] == [
        "list of int", "list of {sku: str, price: float, marks: list of int}", "list of list of str", "list of int?",
        "list of (int?)",
    ]  # fmt: skip
    assert pickle.loads(pickle.dumps(kinds)) == kinds
    assert [each.required.element for each in pickle.loads(pickle.dumps(kinds))] == [
        INT,
        ITEM,
        ListOf(STR),
        INT,
        Optional(INT),
    ]
    assert optional(ListOf(ITEM)).required == ListOf(ITEM)
    assert ListOf(ITEM) != ListOf(Record(ITEM, DOCUMENT, ITEM.names))
    assert has_documents(ListOf(Record(ITEM, DOCUMENT, ITEM.names)))


def test_a_record_fits_if_all_its_items_do() -> None:
    assert fits([1, 2], ListOf(INT))
    assert not fits([1, True], ListOf(INT))
    assert not fits((1, 2), ListOf(INT))
    assert fits([], ListOf(ITEM))


@given(st.lists(orders, min_size=1, max_size=6), st.data())
def test_parts_of_a_block_have_the_lists_of_its_records(records: list[Any], data: Any) -> None:
    block, count = columns_of(records, ORDER), len(records)
    positions = data.draw(st.lists(st.integers(0, count - 1), max_size=8))
    mask = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    start, stop = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))

    assert block.to_list() == records
    assert block.take(np.array(positions, np.int64)).to_list() == [records[at] for at in positions]
    assert block.keep(np.array(mask)).to_list() == [each for each, kept in zip(records, mask, strict=True) if kept]
    part = block[start:stop]
    assert part.to_list() == records[start:stop]
    assert part.take(np.arange(stop - start)[::-1]).to_list() == records[start:stop][::-1]
    if start < stop:
        assert decode_block(encode_block(part)).to_list() == records[start:stop]
        assert joined([part, block, part]).to_list() == records[start:stop] + records + records[start:stop]


def test_blocks_of_which_one_has_not_read_its_lists_are_joined() -> None:
    read, unread = columns_of([[1], [2, 3]], ListOf(INT)), Column(ListOf(INT), NOT_READ, constant=True)

    one = joined([read, Columns(ListOf(INT), [unread], 2)])
    other = joined([Columns(ListOf(INT), [unread], 2), read])

    assert one.to_list() == [[1], [2, 3], NOT_READ, NOT_READ]
    assert other.to_list() == [NOT_READ, NOT_READ, [1], [2, 3]]


def test_the_size_of_lists_is_that_of_their_items() -> None:
    few, many = (size_of(columns_of([[1] * count] * 10, ListOf(INT))) for count in (1, 1000))

    assert many - few == 999 * 10 * 8


def test_each_time_records_are_made_their_lists_are_new() -> None:
    column = column_of([[1], [2, 3]], ListOf(INT))

    column.to_list(2)[0].append(7)

    assert column.to_list(2) == [[1], [2, 3]]
    assert column.data.tolist() == [[1], [2, 3]]


def total(price: float, count: int = 2) -> float:
    return price * count


FUNCTIONS = [
    lambda r: len(r["items"]),
    lambda r: sum(i["price"] * 2 for i in r["items"]) if r["items"] else 0.0,
    lambda r: sum((i["price"] for i in r["items"]), 0.5),
    lambda r: sum(len(i["marks"]) for i in r["items"] if i["sku"]),
    lambda r: [i["sku"].upper() for i in r["items"] if i["price"] > 3 or i["sku"] == "tea"],
    lambda r: [i["price"] if i["sku"] else -1.0 for i in r["items"]],
    lambda r: [sum(i["marks"]) * r["id"] for i in r["items"]],
    lambda r: [[m + r["id"] for m in i["marks"] if m != r["id"]] for i in r["items"]],
    lambda r: [i for i in r["items"] if i["price"] >= 1],
    lambda r: [(i["sku"], {"n": FACTOR * len(i["marks"])}) for i in r["items"]],
    lambda r: [total(i["price"]) for i in r["items"]],
    lambda r: any(i["price"] > 5 for i in r["items"]),
    lambda r: "new" in r["tags"] and "old" not in r["tags"],
    lambda r: (sum(r["flags"]), any(r["flags"]), bool(r["tags"]), not r["items"]),
    lambda r: r["tags"][0] if r["tags"] else "none",
    lambda r: r["items"][-1]["marks"] if r["items"] else [r["id"]][:0] or [7],
    lambda r: ",".join(sorted(r["tags"])),
    lambda r: ",".join(f"{tag}{r['id']}" for tag in r["tags"] if tag.isascii()),
    lambda r: max([len(tag) for tag in r["tags"]]) if r["tags"] else 0,
    lambda r: r["tags"][1:],
    lambda r: list(r["tags"]),
    lambda r: r["tags"] if r["flags"] else None,
    lambda r: isinstance(r["tags"], list),
    lambda r: sum(x for x in (r["id"], 4)),
    lambda r: [m + r["id"] for i in r["items"] for m in i["marks"] if m > 0],
    lambda r: sum(m for i in r["items"] if i["sku"] for m in i["marks"]),
    lambda r: [(i["sku"], tag, n) for i in r["items"] for tag in r["tags"] if tag != "old" for n in (r["id"], 0)],
    lambda r: [r["id"], len(r["tags"]), -1],
    lambda r: {"id": r["id"], "pairs": [(r["id"], "a"), (0, "b")], "none": [r["tags"], r["tags"][:1]]},
    lambda r: [tag.upper() for tag in (r["tags"] or ["none"])],
    lambda r: sum(len(tag) for tag in r.get("tags", [])),
    lambda r: r.get("missing", [1, 2]),
    lambda r: r["tags"] if r["flags"] else [],
    lambda r: [x["sku"] for x in r["items"]] or ["none"],
    lambda r: list((r["id"], 7)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_functions_of_lists_give_what_python_gives(number: int) -> None:
    function = FUNCTIONS[number]
    traced, schema = trace(function, None, 1).typed(ORDER)

    @given(st.lists(orders, min_size=1, max_size=6))
    def compared(records: list[Any]) -> None:
        found = computed(traced.result, schema, columns_of(records, ORDER)).to_list()
        assert list(map(repr, found)) == list(map(repr, map(function, records)))

    compared()


@pytest.mark.parametrize(
    "function",
    [
        lambda r: r["tags"][0],
        lambda r: r["items"][3]["sku"],
        lambda r: max(r["tags"]),
        lambda r: sum(i["price"] for i in r["items"]),  # the int 0, of an empty list
    ],
)
def test_what_raises_for_one_list_or_has_another_type_is_left_to_the_function(function: Any) -> None:
    traced, schema = trace(function, None, 1).typed(ORDER)

    with pytest.raises(FallBackToRows):
        computed(traced.result, schema, columns_of([{"id": 0, "items": [], "tags": [], "flags": []}], ORDER))


def test_a_sum_that_leaves_64_bits_is_left_to_the_function() -> None:
    traced, schema = trace(lambda r: sum(r) + 0, None, 1).typed(ListOf(INT))
    great = columns_of([[2**62, 2**62], [1]], ListOf(INT))

    with pytest.raises(FallBackToRows):
        computed(traced.result, schema, great)
    # Those of many lists together may be greater.
    many = columns_of([[2**61], [2**61]] * 8, ListOf(INT))
    assert computed(traced.result, schema, many).to_list() == [2**61] * 16


def summed(r: Any) -> Any:
    total = 0.0
    for item in r["items"]:
        if item["price"] > 3:
            total += item["price"] * 2
    return {"id": r["id"], "total": total}


def counted(r: Any) -> Any:
    new, all_marks, short = 0, r["id"], False
    for item in r["items"]:
        marks = item["marks"]
        if not marks:
            continue
        if len(marks) == 1:
            short = True
        else:
            new += 1
        all_marks = all_marks + sum(marks)
    return new, all_marks, short


def best(r: Any) -> Any:
    dear, cheap, name = -1.0, 99.0, ""
    for item in r["items"]:
        if item["price"] > dear:  # noqa: PLR1730 - as users write it
            dear = item["price"]
        cheap = min(cheap, item["price"])
        name = max(name, item["sku"])
    return dear, cheap, name


def gathered(r: Any) -> Any:
    found = []
    for item in r["items"]:
        name = item["sku"].upper()
        if name and item["price"] != 1.0:
            found.append((name, len(item["marks"]) + r["id"]))
    return found


def joined_up(r: Any) -> str:
    line = "tags:"
    for tag in r["tags"]:
        line += f" {tag}"
    return line


def found_one(r: Any) -> bool:
    there = False
    for tag in r["tags"]:
        if tag == "new":
            there = True
    return there and r["id"] > 0


def two_loops(r: Any) -> Any:
    count = 0
    for tag in r["tags"]:
        count += len(tag)
    for flag in r["flags"]:
        if flag:
            count += 1
    return count


LOOPS = [summed, counted, best, gathered, joined_up, found_one, two_loops]


@pytest.mark.parametrize("function", LOOPS)
def test_loops_that_carry_variables_give_what_python_gives(function: Any) -> None:
    traced, schema = trace(function, None, 1).typed(ORDER)

    @given(st.lists(orders, min_size=1, max_size=6))
    def compared(records: list[Any]) -> None:
        found = computed(traced.result, schema, columns_of(records, ORDER)).to_list()
        assert list(map(repr, found)) == list(map(repr, map(function, records)))

    compared()


def averaged(r: Any) -> Any:
    mean = 0.0
    for item in r["items"]:
        mean = (mean + item["price"]) / 2
    return mean


def stopped(r: Any) -> Any:
    count = 0
    for tag in r["tags"]:
        if tag == "new":
            break
        count += 1
    return count


def last(r: Any) -> Any:
    found = "none"
    for tag in r["tags"]:
        found = tag
    return found


def in_a_loop(r: Any) -> Any:
    count = 0
    for item in r["items"]:
        for mark in item["marks"]:
            count += mark
    return count


def looked_at(r: Any) -> Any:
    count = 0
    for item in r["items"]:
        if count < 3:
            count += len(item["marks"])
    return count


def given_away(r: Any) -> Any:
    found = []
    for tag in r["tags"]:
        found.append((tag, found))
    return found


def appended_until(r: Any) -> Any:
    found = []
    for tag in r["tags"]:
        if tag == "old":
            break
        found.append(tag)
    return found


def returned_within(r: Any) -> Any:
    found = []
    for tag in r["tags"]:
        if tag == "old":
            return found
        found.append(tag)
    return found


def under_two_names(r: Any) -> Any:
    also = found = []
    for tag in r["tags"]:
        found.append(tag + "")  # noqa: PERF401 - as users write it
    return also


def held_before(r: Any) -> Any:
    found = []
    record = {"tags": found}
    for tag in r["tags"]:
        found.append(tag + "")  # noqa: PERF401 - as users write it
    return record


def raising(r: Any) -> Any:
    count = 0
    for tag in r["tags"]:
        count += int(tag)
    return r["id"]


def test_what_a_loop_evaluates_may_raise_though_nothing_of_it_is_used() -> None:
    traced, schema = trace(raising, None, 1).typed(ORDER)

    with pytest.raises(FallBackToRows):
        computed(traced.result, schema, columns_of([{"id": 0, "items": [], "tags": ["new"], "flags": []}], ORDER))
    assert computed(
        traced.result, schema, columns_of([dict(id=1, items=[], tags=[], flags=[False])], ORDER)
    ).to_list() == [1]


def flagged(r: Any) -> Any:
    found = False
    for tag in r["tags"]:
        found = True
        if int(tag) > 3:
            found = True
    return found


def flagged_beside_another(r: Any) -> Any:
    some, large = False, "no"
    for tag in r["tags"]:
        if r["id"]:
            continue
        some = True
        if int(tag) > 3:
            large = "yes"
    return (some, large)


def flagged_and_unused(r: Any) -> Any:
    some = large = False
    for tag in r["tags"]:
        some = True  # noqa: F841 - what it depends on may raise all the same
        if int(tag) > 3:
            large = True  # noqa: F841 - as above
    return r["id"]


@pytest.mark.parametrize("function", [flagged, flagged_beside_another, flagged_and_unused], ids=lambda f: f.__name__)
def test_a_flag_of_a_loop_keeps_the_tests_of_other_variables_within_it(function: Any) -> None:
    traced, schema = trace(function, None, 1).typed(ORDER)
    records = [
        {"id": n, "items": [], "tags": tags, "flags": []} for n, tags in enumerate([["1", "5"], [], ["2"], ["7"]])
    ]

    assert computed(traced.result, schema, columns_of(records, ORDER)).to_list() == [function(each) for each in records]
    with pytest.raises(FallBackToRows):
        computed(traced.result, schema, columns_of([{"id": 0, "items": [], "tags": ["new"], "flags": []}], ORDER))


def assigned_again(r: Any) -> Any:
    k = r["id"]
    found = (x["price"] * k for x in r["items"])
    k = 7
    return sum(found) + k


REFUSED: list[tuple[Any, str]] = [
    (averaged, "carries a variable in a way that is not known"),
    (stopped, "leaves a loop early"),
    (appended_until, "leaves a loop early|uses a list|makes a list"),
    (returned_within, "makes a list|leaves a loop early"),
    (under_two_names, "makes a list"),
    (held_before, "makes a list"),
    (last, "carries a variable in a way that is not known"),
    (in_a_loop, "has a loop in a loop"),
    (looked_at, "condition on a variable that it carries"),
    (given_away, "makes a list"),
    (assigned_again, "which an inner function uses"),
    (lambda r: {i["sku"] for i in r["items"]}, "uses a set"),
    (lambda r: {i["sku"]: 1 for i in r["items"]}, "makes a dict of items|has a loop"),
    (lambda r: [x for x in r["id"]], "loops over int"),
    (lambda r: (i["sku"] for i in r["items"]), "uses a generator"),
    (lambda r: len(i["sku"] for i in r["items"]), "uses a generator"),  # type: ignore[arg-type]
    (lambda r: tuple(i["sku"] for i in r["items"]), "calls tuple"),
    (lambda r: r["tags"] == ["new"], "compares list of str == list of str"),
    (lambda r: r["tags"] == r["tags"], "compares list of str == list of str"),
    (lambda r: [1 for i in r["items"] if False], "never gives anything"),
    (lambda r: r["tags"].append("x"), "calls the method append"),
    (lambda r: reduce(operator.add, r["tags"]), "calls operator.add"),
    (lambda r: all(m > 0 for i in [r["id"], 2] for m in [i, i + 1]), "makes a list"),
    (lambda r: [x * 2 for x in (r["id"], 4)] == [2, 8], "compares list of int == list of int"),
    (lambda r: [r["id"], r["tags"]], "makes a list of int and list of str"),
    (lambda r: [], "makes a list of nothing"),
    (lambda r: [[] for i in r["items"]], "makes a list of nothing"),
    (lambda r: [*r["tags"], 1], "joins list of str and list of int"),
    (lambda r: sorted(r["tags"], key=lambda tag: [tag]), r"calls sorted\(\) with list of str, list of list of str"),
]


@pytest.mark.parametrize(("function", "reason"), REFUSED)
def test_what_is_not_read_is_told(function: Any, reason: str) -> None:
    with pytest.raises(NotVectorizable, match=reason):
        trace(function, None, 1).typed(ORDER)


def test_flat_maps_go_over_lists_of_records() -> None:
    def lines(r: Any) -> Any:
        for item in r["items"]:
            if item["price"] > 1:
                yield r["id"], item["sku"], sum(item["marks"])

    traced, schema = trace_flat_map(lines, None).typed(ORDER)

    assert schema == Tuple((INT, STR, INT))
    assert traced.read == {(0,), (1, ITEMS, ITEMS), (1, ITEMS, 0), (1, ITEMS, 1), (1, ITEMS, 2)}


@pytest.mark.parametrize(
    ("function", "read"),
    [
        (lambda r: sum(i["price"] for i in r["items"]), {(1, ITEMS, ITEMS), (1, ITEMS, 1)}),
        (lambda r: sum([i["price"] for i in r["items"] if i["sku"]], 0.0) if r["items"] else 0.0,
         {(1, ITEMS, ITEMS), (1, ITEMS, 0), (1, ITEMS, 1)}),
        (lambda r: len(r["items"]) + len(r["tags"]), {(1, ITEMS, ITEMS), (2, ITEMS, ITEMS)}),
        (lambda r: [i for i in r["items"]], {(1, ITEMS, ITEMS)}),
        (lambda r: (r["items"], len(r["items"])), {(1,)}),
        (lambda r: (r["items"][0]["sku"], sum(i["price"] for i in r["items"])), {(1,)}),
        (lambda r: [m for i in r["items"] for m in i["marks"]], {(1, ITEMS, ITEMS), (1, ITEMS, 2)}),
        (lambda r: [i["sku"] for i in (r["items"] or [])], {(1, ITEMS, ITEMS), (1, ITEMS, 0)}),
        (lambda r: [i["sku"] if i["sku"] is not None else i["price"] for i in r["items"]],
         {(1, ITEMS, ITEMS), (1, ITEMS, 0), (1, ITEMS, 1)}),
        (lambda r: "new" in r["tags"], {(2,)}),
    ],
)  # fmt: skip
def test_of_lists_whose_items_are_looped_over_some_fields_are_read(function: Any, read: Any) -> None:
    found = trace(function, None, 1).typed(ORDER)[0].read

    assert found == read


def test_lists_that_are_alike_are_no_one_list() -> None:
    block = columns_of(["", ""], STR)
    traced, schema = trace(lambda r: ["a", "b"], None, 1).typed(STR)

    one, other = computed(traced.result, schema, block).to_list()

    assert one == other == ["a", "b"]
    assert one is not other
    assert isinstance(computed(traced.result, schema, block).leaves[0], Column)

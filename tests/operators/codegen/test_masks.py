"""Predicates that are evaluated for a block: the masks are what the functions return, or there are none."""

import itertools
from collections import namedtuple

import pytest

from funken.operators.masks import BlockPredicates

Tick = namedtuple("Tick", "kind price")
LIMIT = 3


def by_function(predicates, records):
    masks = BlockPredicates(predicates)
    return [
        sum(bit for bit, predicate in zip(masks.bits, predicates, strict=True) if bit and predicate(record))
        for record in records
    ]


def above(limit):
    return lambda tick: tick[1] > limit


def defaulted(tick, limit=2):
    return tick[1] > limit


READ = [
    lambda tick: tick[0] == "a",
    lambda tick: tick[0] in ("a", "c"),
    lambda tick: tick[0] not in {"a", "c"},
    lambda tick: tick[1] == 0,
    lambda tick: tick[1],
    lambda tick: not tick[1],
    lambda tick: tick[0] == "a" and tick[1] > 2,
    lambda tick: tick[0] == "a" or tick[1] > 2,
    lambda tick: 1 < tick[1] <= 4,
    lambda tick: tick[1] * 2 - 1 >= LIMIT,
    lambda tick: abs(-tick[1]) > 2,
    lambda tick: tick[0].startswith("a"),
    lambda tick: tick.price > 2,
    lambda tick: tick.kind == "a" and tick.price > 1,
    lambda tick: tick.kind == "b",
    lambda tick: tick.kind.startswith("a") or tick.price in (1, 2),
    lambda tick: tick.price is not None,
    lambda tick: (tick[1] if tick[0] == "a" else 0) > 1,
    above(3),
]
RECORDS = [Tick(kind, price) for kind in "abc" for price in range(6)]


def test_every_predicate_is_read():
    masks = BlockPredicates(READ)

    assert masks.bits == tuple(1 << number for number in range(len(READ)))
    assert masks.known == (1 << len(READ)) - 1


def test_masks_are_what_the_functions_return():
    for predicates in itertools.combinations(READ, 2):
        assert BlockPredicates(predicates).masks(RECORDS) == by_function(predicates, RECORDS)
    assert BlockPredicates(READ).masks(RECORDS) == by_function(READ, RECORDS)


@pytest.mark.parametrize(
    "function",
    [
        print,
        lambda tick: tick.append(1),
        lambda tick: [each for each in tick] == [],
        defaulted,
    ],
)
def test_what_may_have_an_effect_is_not_read(function):
    masks = BlockPredicates([function, READ[0]])

    assert masks.bits == (0, 1)
    assert masks.masks([("a", 1), ("b", 1)]) == [1, 0]


def test_records_with_keys_are_read():
    records = [{"kind": kind, "price": {"cents": cents}} for kind in "abc" for cents in range(3)]
    predicates = [
        lambda e: e["kind"] == "a",
        lambda e: e["kind"] == "b" and e["price"]["cents"] > 1,
        lambda e: e["kind"] in ("a", "c"),
    ]

    assert BlockPredicates(predicates).known == 7
    assert BlockPredicates(predicates).masks(records) == by_function(predicates, records)
    assert BlockPredicates(predicates).masks([*records, {"kind": "b"}]) is None


def test_there_are_no_masks_without_predicates():
    assert BlockPredicates([]).masks([1, 2]) is None
    assert BlockPredicates([print]).masks([1, 2]) is None


def test_there_are_no_masks_where_a_predicate_raises():
    masks = BlockPredicates([lambda tick: tick[0] == "a", lambda tick: tick[1] > 2])

    assert masks.masks([("a", 1), ("a", None)]) is None
    assert masks.masks([("a", 1), ("a", 3)]) == [1, 3]
    assert BlockPredicates(READ[:2]).masks([([], 1)]) is None  # cannot be looked up


def test_there_are_no_masks_after_a_variable_has_changed():
    limit = 3

    def later(value):
        nonlocal limit
        limit = value

    masks = BlockPredicates([lambda tick: tick[1] > limit])
    assert masks.masks([("a", 4)]) == [1]

    later(5)

    assert masks.masks([("a", 4)]) is None


def test_a_mask_has_a_bounded_number_of_bits():
    masks = BlockPredicates([lambda tick: tick[0] == "a"] * 70)

    assert masks.bits[-1] == 0
    assert masks.known.bit_length() == 60

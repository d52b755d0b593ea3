"""What an opaque function made becomes columns again in an aggregation; lines of text are columns from the file on."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken import Configuration
from funken.dataset import Aggregations, ExecutionEnvironment, JoinHint
from funken.dataset.columns import aggregation
from funken.dataset.columns.aggregation import HashTable
from funken.dataset.columns.block import ColumnBlock, columns_in, lifted
from funken.dataset.formats import inputs
from funken.dataset.formats.inputs import TextInput
from tests.dataset.programs import TINY

KEYS = {
    "ints": lambda chance: chance.randrange(-40, 40),
    "wide": lambda chance: chance.randrange(10) * 10**15,
    "texts": lambda chance: f"é{chance.randrange(60)}",
    "beyond 64 bits": lambda chance: 2**62 * chance.randrange(4),
    "no encoding": lambda chance: chance.choice(["a", "b", "\ud800"]),
    "floats": lambda chance: float(chance.randrange(9)),
    "mixed": lambda chance: chance.choice([1, 2, "1", "2"]),
}
VALUES = {
    "ints": lambda chance: chance.randrange(1000),
    "floats": lambda chance: float(chance.randrange(-500, 500)),
    "overflow": lambda chance: chance.randrange(2**61, 2**62),
    "bools": lambda chance: chance.random() < 0.5,
    "some floats": lambda chance: chance.choice([1, 2.0]) if chance.random() < 0.01 else 3,
    "some none": lambda chance: None if chance.random() < 0.0005 else 1,
}


def environment(vectorized, parallelism, budget=None):
    options = {"parallelism.default": parallelism, "pipeline.vectorized": vectorized}
    if budget is not None:
        options["execution.memory.managed"] = budget
    return ExecutionEnvironment.create_local_environment(configuration=Configuration(options))


def expected(records):
    sums = {}
    for key, value, other in records:
        so_far = sums.get(key)
        sums[key] = (value, other) if so_far is None else (so_far[0] + value, max(so_far[1], other))
    return sorted(map(repr, ((key, *found) for key, found in sums.items())))


@pytest.mark.parametrize("parallelism", [1, 2, 4])
@pytest.mark.parametrize("budget", [None, TINY])
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("values", [name for name in VALUES if name != "some none"])
def test_groups_of_opaque_records_are_those_of_a_loop(keys, values, budget, parallelism):
    chance = random.Random(f"{keys}{values}")
    records = [(KEYS[keys](chance), VALUES[values](chance), chance.randrange(100)) for _ in range(3000)]
    data = environment(True, parallelism, budget).from_collection(records)

    found = data.group_by(0).aggregate(Aggregations.SUM, 1).and_(Aggregations.MAX, 2).collect()

    if values == "some floats":  # how a sum of both is written depends on the order
        found = [(key, float(value), other) for key, value, other in found]
        records = [(key, float(value), other) for key, value, other in records]
    assert sorted(map(repr, found)) == expected(records)


FIELDS = {
    "narrow": st.one_of(st.integers(-(2**31), 2**31 - 1), st.sampled_from([-(2**31), 2**31 - 1, 0, 105, 103])),
    "ints": st.integers(-(2**63), 2**63 - 1),
    "floats": st.floats(),
    "texts": st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
}


class Whole(int):
    """Is no plain int."""


ODD = [True, None, 2**63, Whole(3), 2.5, 7, 1 << 31, "a", "\ud800", (1,), b"i"]


@st.composite
def blocks(draw):
    fields = draw(st.lists(st.sampled_from([*FIELDS]), min_size=1, max_size=3))
    return fields, draw(st.lists(st.tuples(*(FIELDS[name] for name in fields)), min_size=1, max_size=12))


@settings(max_examples=300, deadline=None)
@given(blocks(), st.integers(0, 11), st.integers(0, 2), st.sampled_from([*ODD, ...]))
def test_lifted_records_are_those_that_were_there_with_their_types(made, at, place, odd):
    fields, block = made
    if odd is not ...:
        at, place = at % len(block), place % len(fields)
        block[at] = (*block[at][:place], odd, *block[at][place + 1 :])
    types = [{type(record[place]) for record in block} for place in range(len(fields))]
    fit = all(not isinstance(value, int) or -(2**63) <= value < 2**63 for record in block for value in record)
    plain = all(len(found) == 1 and found <= {int, float, str} for found in types)
    written = all(not isinstance(value, str) or value != "\ud800" for record in block for value in record)

    found = lifted(block)

    assert (found is not None) == (fit and plain and written)
    if found is not None:
        assert repr(found.to_list()) == repr(block)


@pytest.mark.parametrize(
    "block",
    [[], [()], [[1, 2.0]], [(1, 2.0), (1, 2.0, 3)], [(1, 2), [1, 2]], [(1, 2.0), (1,), (1, 2.0, 3)], [(1,), 1], [None]],
    ids=repr,
)
def test_what_are_no_tuples_of_one_width_stays_as_it_is(block):
    assert lifted(block) is None


def test_numbers_are_lifted_at_once_and_others_field_by_field(monkeypatch):
    from funken.dataset.columns import block as lifting

    monkeypatch.setattr(lifting, "_of_fields", lambda block, kinds: pytest.fail("it was taken field by field"))

    assert lifted([(1, 0.5), (-5, float("-inf"))]).to_list() == [(1, 0.5), (-5, float("-inf"))]


def test_plain_records_are_grouped_without_a_table(monkeypatch):
    added = []
    monkeypatch.setattr(HashTable, "add", lambda self, block: added.append(len(block)))
    data = environment(True, 2).from_collection([(n % 100, 1) for n in range(5000)])

    assert sorted(data.map(lambda pair: (pair[0], len(str(pair)) - 6)).group_by(0).sum(1).collect())[0][0] == 0
    assert added == []


@pytest.mark.parametrize("vectorized", [True, False])
def test_records_stay_as_they_are_where_columns_are_off_or_blocks_are_small(monkeypatch, vectorized):
    monkeypatch.setattr(aggregation, "lifted", lambda block: pytest.fail("a block was lifted"))
    count = 100 if vectorized else 5000
    data = environment(vectorized, 1).from_collection([(n % 10, 1) for n in range(count)])

    assert sorted(data.group_by(0).sum(1).collect()) == [(key, count // 10) for key in range(10)]


def test_a_null_among_plain_values_fails_as_it_does_by_record():
    chance = random.Random(4)
    records = [(1, VALUES["some none"](chance)) for _ in range(6000)]
    assert any(value is None for _, value in records[300:])

    for vectorized in (True, False):
        with pytest.raises(Exception, match=r"operator 'sum' .*failed at the record \(1, "):
            environment(vectorized, 1).from_collection(records).group_by(0).sum(1).collect()


# ---- text


def lines(path, cuts, vectorized):
    source = TextInput(str(path), vectorized=vectorized)
    places = sorted({0, path.stat().st_size, *(cut % (path.stat().st_size + 1) for cut in cuts)})
    splits = [(str(path), start, end) for start, end in pairwise(places)]
    return [[line for block in source.blocks(split) for line in block] for split in splits]


@settings(max_examples=200, deadline=None)
@given(
    st.text("ab \n\r\t\x1c\x85é\u2028\0", max_size=80), st.lists(st.integers(0, 200), max_size=4), st.integers(1, 20)
)
def test_lines_are_the_same_as_one_by_one_wherever_a_file_is_cut(tmp_path_factory, text, cuts, piece):
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "_PIECE_BYTES", piece)

        assert lines(path, cuts, True) == lines(path, cuts, False)


def test_lines_that_are_no_text_fail_as_they_do_one_by_one(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"good\nbad \xff\n")
    found = []
    for vectorized in (True, False):
        with pytest.raises(Exception, match="decode byte 0xff in position 4") as raised:
            environment(vectorized, 1).read_text_file(path).collect()
        found.append(str(raised.value).splitlines()[0])

    assert found[0] == found[1]


TEXT = "to be or not to be\n\nthat is the question\n" * 200
SPLITS = {
    "str.split": str.split,
    "lambda": lambda line: line.split(),
    "by a letter": lambda line: line.split("e"),
    "pairs": lambda line: [(word, len(word)) for word in line.split() if word != "be"],
    "two": lambda line: (line, line + "!"),
    "opaque": lambda line: sorted(line.split()),
    "nothing": lambda line: None,
}


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_what_flat_map_gives_is_what_the_function_gives(tmp_path, name, parallelism):
    path = tmp_path / "text"
    path.write_text(TEXT)

    found = environment(True, parallelism).read_text_file(path).flat_map(SPLITS[name]).collect()

    assert found == [each for line in TEXT.splitlines() for each in SPLITS[name](line) or ()]


def test_words_are_counted_without_a_record(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_text(TEXT)
    words = environment(True, 2).read_text_file(path).flat_map(str.split).map(lambda word: (word, 1))
    counted = words.group_by(0).sum(1).map_partition(lambda records: [sum(1 for _ in records)])
    seen = []
    rows = ColumnBlock.rows
    monkeypatch.setattr(ColumnBlock, "rows", lambda block: seen.append(len(block)) or rows(block))

    assert sum(counted.collect()) == sum(seen) == len(set(TEXT.split()))


def test_a_text_file_begins_as_columns(tmp_path):
    path = tmp_path / "text"
    path.write_text("a\nb")

    (block,) = TextInput(str(path)).blocks((str(path), 0, 3))

    assert columns_in(block) is not None


# ---- joins


def probing(env, kind, hint, keys):
    """Join what a function has made with columns; some keys have no partner, on either side."""
    build = env.generate_sequence(0, 2999).map(lambda n: (n % 700, n))
    made = env.from_collection(keys).map(lambda key: (key, len(str(key)))).filter(lambda pair: str(pair) != "")
    joined = getattr(made, kind)(build, hint).where(0).equal_to(0)
    return sorted(map(repr, joined.using(lambda one, other: (one, other)).collect()))


@pytest.mark.parametrize("budget", [None, TINY])
@pytest.mark.parametrize("kind", ["join", "left_outer_join", "right_outer_join", "full_outer_join"])
@pytest.mark.parametrize(
    "keys",
    [range(600, 900), [*range(300), 2**63, 5], [5.0, 650.0, 7.5], [True, False, 800], [*range(400), "text"], []],
    ids=["ints", "wide at the end", "floats", "bools", "text at the end", "none"],
)
def test_a_join_of_records_with_columns_gives_what_records_give(kind, keys, budget):
    hint = JoinHint.REPARTITION_HASH_SECOND

    expected = probing(environment(False, 1), kind, hint, keys)

    for parallelism in (1, 2):
        assert probing(environment(True, parallelism, budget), kind, hint, keys) == expected

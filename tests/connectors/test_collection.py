import json
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import Configuration, DiscardingSink, StreamExecutionEnvironment
from funken.columnar.expressions import NotVectorizable
from funken.connectors.base import Boundedness, ConnectorContext
from funken.connectors.collection import COLUMNS_FROM, CollectionSource
from funken.errors import RecordNotPicklable


def test_the_elements_come_in_order(job):
    run = job(CollectionSource(range(8)))

    assert run.run() == list(range(8))
    assert run.finished == ["collection"]


def test_it_is_bounded_and_read_by_one_subtask():
    source = CollectionSource([1])

    assert source.boundedness is Boundedness.BOUNDED
    assert source.max_parallelism == 1


def test_no_elements_are_fine(job):
    assert job(CollectionSource([])).run() == []


def test_changes_after_the_declaration_are_not_seen(job):
    values = [[1], [2]]
    source = CollectionSource(values)
    values[0].append(99)
    values.append([3])

    assert job(source).run() == [[1], [2]]


def test_an_element_that_cannot_travel_is_named():
    with pytest.raises(
        RecordNotPicklable, match=r"^element 2 of a collection, .*lock.*, cannot be pickled \(TypeError"
    ):
        CollectionSource([1, 2, threading.Lock(), threading.Lock()])


def test_an_element_that_cannot_even_be_printed_is_named():
    class Spiteful:
        def __repr__(self):
            raise RuntimeError

        def __reduce__(self):
            raise ValueError("no")

    with pytest.raises(RecordNotPicklable, match=r"^element 0 of a collection, .*Spiteful.*\(ValueError: no\)"):
        CollectionSource([Spiteful()])


def test_classes_of_the_main_script_travel(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "import sys, dataclasses\n"
        "from funken.connectors.collection import CollectionSource\n"
        "@dataclasses.dataclass\n"
        "class Click: user: str\n"
        "sys.stdout.buffer.write(CollectionSource([Click('ann')]).payload)\n"
    )
    payload = subprocess.run([sys.executable, script], capture_output=True, check=True).stdout
    reading = "import sys, pickle; print(pickle.loads(sys.stdin.buffer.read()))"

    shown = subprocess.run([sys.executable, "-c", reading], input=payload, capture_output=True, check=True).stdout

    assert shown.decode().strip() == "[Click(user='ann')]"


@given(st.lists(st.integers()), st.integers(1, 5), st.integers(0, 12))
def test_a_restart_anywhere_goes_on_where_it_was(job, values, limit, steps):
    run = job(CollectionSource(values), limit=limit)
    for _ in range(steps):
        run.step()
    run.crash()

    assert run.run() == values


@pytest.fixture
def few(monkeypatch):
    """Collections of three elements are many."""
    monkeypatch.setattr("funken.connectors.collection.COLUMNS_FROM", 3)


RECORDS = [{"word": f"w{number % 3}", "n": number, "tags": ["t"] * (number % 2)} for number in range(20)]


def test_many_elements_that_are_alike_travel_as_columns(few):
    source = CollectionSource(RECORDS)
    reader = source.reader(ConnectorContext("words"))
    reader.read_record_columns(source.record_schema(), None)
    reader.open()
    reader.add_splits(source.enumerator(1).next_splits(0))

    blocks = [reader.poll(7, now=0).values for _ in range(3)]

    assert [len(block) for block in blocks] == [7, 7, 6]
    assert [record for block in blocks for record in block.rows()[0]] == RECORDS


def test_without_use_for_columns_they_are_records(few, job):
    assert job(CollectionSource(RECORDS)).run() == RECORDS


@pytest.mark.usefixtures("few")
@given(st.integers(1, 8), st.integers(0, 12))
def test_a_restart_goes_on_in_columns_as_well(job, limit, steps):
    run = job(CollectionSource(RECORDS), limit=limit)
    for _ in range(steps):
        run.step()

    run.crash()

    assert run.run() == RECORDS


def test_what_is_done_to_elements_is_not_seen_in_columns_either(few):
    records = [{"n": [1]}, {"n": [2]}, {"n": [3]}]
    source = CollectionSource(records)
    records[0]["n"].append(9)
    reader = source.reader(ConnectorContext("numbers"))
    reader.open()
    reader.add_splits(source.enumerator(1).next_splits(0))

    assert reader.poll(9, now=0).values == [{"n": [1]}, {"n": [2]}, {"n": [3]}]


@pytest.mark.parametrize(
    ("elements", "reason"),
    [
        ([1, 2], "has fewer than 3 elements"),
        ([1, 2, "three"], "has elements with values of the types int, str in the same place"),
    ],
)
def test_others_say_why_they_are_records(few, elements, reason):
    with pytest.raises(NotVectorizable, match=f"^{reason}$"):
        CollectionSource(elements).record_schema()


def test_a_program_over_a_large_collection_runs_on_columns():
    results = []
    for vectorized in (True, False):
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        words = env.from_collection([(f"w{number % 5}", number) for number in range(COLUMNS_FROM)])
        some = words.filter(lambda pair: pair[1] % 3 > 0)
        sums = some.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1]))
        results.append(sums.execute_and_collect(limit=COLUMNS_FROM))
        sums.sink_to(DiscardingSink())
        assert (": vectorized" in env.explain()) is vectorized

    assert results[0] == results[1]
    assert len(results[0]) == COLUMNS_FROM - (COLUMNS_FROM + 2) // 3


def test_a_class_of_the_main_script_travels_in_columns(tmp_path):
    script = tmp_path / "main.py"
    script.write_text(
        "import sys, dataclasses\n"
        "from funken.connectors import collection\n"
        "@dataclasses.dataclass\n"
        "class Click: user: str\n"
        "collection.COLUMNS_FROM = 1\n"
        "sys.stdout.buffer.write(collection.CollectionSource([Click('ann')]).payload)\n"
    )
    payload = subprocess.run([sys.executable, script], capture_output=True, check=True).stdout
    reading = (
        "import sys; from funken.columnar.keyed.codec import decode_block\n"
        "print(decode_block(sys.stdin.buffer.read()).to_list())"
    )

    shown = subprocess.run([sys.executable, "-c", reading], input=payload, capture_output=True, check=True).stdout

    assert shown.decode().strip() == "[Click(user='ann')]"


def test_json_in_large_collections_is_looked_at(few):
    env = StreamExecutionEnvironment.create_local_environment(1)
    texts = env.from_collection([(n, json.dumps({"name": f"n{n}", "addr": {"city": f"c{n % 3}"}})) for n in range(9)])
    cities = texts.map(lambda pair: (pair[0], json.loads(pair[1])["addr"]["city"]))

    assert cities.execute_and_collect(limit=9) == [(n, f"c{n % 3}") for n in range(9)]
    cities.sink_to(DiscardingSink())
    assert "per record" not in env.explain()

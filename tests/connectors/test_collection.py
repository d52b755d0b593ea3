import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.connectors.base import Boundedness
from funken.connectors.collection import CollectionSource
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

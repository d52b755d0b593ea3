"""Damaged bytes give what is right or an error of Funken's own; a few of the cases that `make fuzz` runs."""

import random
import tracemalloc

import pytest

from funken.errors import CheckpointCorrupted
from tests.support import fuzzing
from tests.support.fuzzing import Fuzzer, Subject, damaged


@pytest.fixture(scope="module")
def fuzzer():
    return Fuzzer(seed=1)


@pytest.mark.parametrize("part", range(3))
def test_no_damage_gives_another_value_or_a_raw_error(fuzzer, part):
    findings = [fuzzer.run(case) for case in range(part * 1000, part * 1000 + 1000)]
    assert [finding for finding in findings if finding is not None] == []


def test_every_subject_is_damaged_and_read_both_ways(fuzzer):
    for case in range(1000):
        fuzzer.run(case)
    assert {
        "blocks",
        "control blocks",
        "messages",
        "connections",
        "manifests",
        "fields",
        "checkpoints",
    } <= fuzzer.counts.keys()
    for name, counts in fuzzer.counts.items():
        assert sum(count for outcome, count in counts.items() if outcome != "right") > 0, name


@pytest.mark.parametrize(
    ("read", "outcome"),
    [
        (lambda files: files["x"][100], "raw"),
        (lambda files: bytes(2**62), "memory"),
        (lambda files: "another", "wrong"),
        (lambda files: "right", "right"),
    ],
)
def test_a_fuzzer_notices(monkeypatch, read, outcome):
    subject = Subject("some", 1, [{"x": b"content"}], read, ["right"])
    monkeypatch.setattr(fuzzing, "subjects", lambda: [subject])
    fuzzer = Fuzzer(0)
    finding = fuzzer.run(3)
    assert (finding is None) == (outcome == "right")
    assert fuzzer.counts == {"some": {outcome: 1}}


@pytest.mark.parametrize("size", [10, 250 * 10**6])
def test_what_allocates_much_is_noticed(monkeypatch, size):
    monkeypatch.setattr(fuzzing, "subjects", lambda: [Subject("some", 1, [{"x": b""}], lambda files: len(bytes(size)))])
    tracemalloc.start(1)
    try:
        finding = Fuzzer(0).run(0)
    finally:
        tracemalloc.stop()
    assert (finding is not None) == (size > fuzzing.BYTES)


def test_memory_that_another_error_hides_is_noticed(monkeypatch):
    def read(files):
        try:
            return bytes(2**62)
        except MemoryError as error:
            raise CheckpointCorrupted("cannot be made again") from error

    monkeypatch.setattr(fuzzing, "subjects", lambda: [Subject("some", 1, [{"x": b""}], read)])
    assert "memory" in Fuzzer(0).run(0).fact


def test_a_case_is_the_same_each_time():
    ones, others = ([damaged(b"a" * 50, b"b" * 50, random.Random(seed)) for seed in range(50)] for _ in range(2))
    assert ones == others
    assert len(set(ones)) > 40

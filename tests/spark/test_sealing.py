"""Blocks that cross Spark's shuffle are sealed: hidden, and refused if they were changed, misdirected or made by others."""

import pytest

from funken.errors import EncryptionNotAvailable, TaskLost
from funken.spark.control.channel import Sealer

pytest.importorskip("cryptography")
KEY = bytes(range(32))


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000, 1 << 20])
def test_what_is_sealed_is_opened_by_any_task_of_the_job_and_hidden_from_others(size):
    block = b"pear " * (size // 5 + 1)
    sender, receiver = Sealer(KEY), Sealer(KEY)
    sealed = sender.sealed(block, 2, 7)

    assert receiver.opened(sealed, 2, 7) == sender.opened(sealed, 2, 7) == block
    assert b"pear" not in sealed
    assert KEY not in sealed


def test_blocks_of_many_senders_are_told_apart():
    senders, receiver = [Sealer(KEY) for _ in range(5)], Sealer(KEY)
    sealed = [(n, s, senders[s].sealed(b"%d %d" % (n, s), 1, 0)) for n in range(20) for s in range(5)]

    assert [receiver.opened(each, 1, 0) for _, _, each in reversed(sealed)] == [
        b"%d %d" % (n, s) for n, s, _ in reversed(sealed)
    ]
    assert len({each[:28] for _, _, each in sealed}) == 100  # no key and nonce twice


def test_what_was_changed_is_refused():
    sealed = Sealer(KEY).sealed(b"three pears", 1, 0)
    receiver = Sealer(KEY)

    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(
            TaskLost, match="stage 1, task 0 got a block over Spark's shuffle that no task of this job has sealed"
        ):
            receiver.opened(bytes(changed), 1, 0)
    for length in range(len(sealed)):
        with pytest.raises(TaskLost):
            receiver.opened(sealed[:length], 1, 0)


@pytest.mark.parametrize("place", [(1, 1), (2, 0)])
def test_what_is_for_another_task_is_refused(place):
    with pytest.raises(TaskLost):
        Sealer(KEY).opened(Sealer(KEY).sealed(b"pears", 1, 0), *place)


def test_what_another_job_has_sealed_is_refused():
    with pytest.raises(TaskLost):
        Sealer(KEY).opened(Sealer(KEY[::-1]).sealed(b"pears", 1, 0), 1, 0)


def test_a_filler_stays_empty():
    assert Sealer(KEY).sealed(b"", 1, 0) == b""


def test_without_the_package_the_error_says_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.exceptions", None)
    with pytest.raises(EncryptionNotAvailable, match="in every worker"):
        Sealer(KEY)

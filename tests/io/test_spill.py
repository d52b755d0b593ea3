"""A queue that spills against a list: the same blocks in the same order, with no more in memory than its budget."""

import errno
import os
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.errors import DiskFull
from funken.io.spill import SpillingQueue, SpillSpace


@given(
    steps=st.lists(st.one_of(st.binary(max_size=40), st.none())),
    budget=st.integers(0, 100),
    file_size=st.integers(1, 100),
)
def test_blocks_come_in_order_whatever_is_on_disk(steps, budget, file_size):
    with SpillSpace() as space:
        queue, expected = SpillingQueue(budget, space, "head", file_size), deque()
        for step in steps:
            if step is not None:
                queue.put(step)
                expected.append(step)
            elif expected:
                assert queue.get() == expected.popleft()
            assert len(queue) == len(expected)
            assert queue._in_memory <= budget
        assert [queue.get() for _ in range(len(queue))] == list(expected)
        assert not queue._files, "files are given back when they have been read"
        queue.close()


def test_a_queue_that_is_never_empty_takes_no_more_of_the_disk_than_what_waits():
    with SpillSpace() as space:
        queue = SpillingQueue(0, space, "head", file_size=1000)
        for _ in range(5):
            queue.put(b"x" * 100)
        for _ in range(1000):
            queue.put(b"x" * 100)
            queue.get()
            assert sum(file.size for file in queue._files) <= 3000
        queue.close()


def test_a_full_disk_names_the_operator_and_the_remedy(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    space = SpillSpace()
    space.remedy = "raise execution.memory.feedback"
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(
        DiskFull, match=r"operator 'iterate' cannot spill.*io\.tmp\.dirs.*or raise execution\.memory\.feedback"
    ):
        SpillingQueue(0, space, "iterate").put(b"block")

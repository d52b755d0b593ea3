from funken.connectors.base import StaticSplits


def test_every_subtask_gets_its_share_once():
    enumerator = StaticSplits("abcde", parallelism=2)

    assert enumerator.next_splits(1) == ["b", "d"]
    assert enumerator.next_splits(1) is None
    assert enumerator.next_splits(0) == ["a", "c", "e"]
    assert enumerator.next_splits(0) is None


def test_a_subtask_without_a_share_ends():
    assert StaticSplits("a", parallelism=2).next_splits(1) is None


def test_what_was_not_handed_out_is_handed_out_after_a_restore():
    before = StaticSplits("abcd", parallelism=4)
    before.next_splits(1)
    after = StaticSplits("abcd", parallelism=4)
    after.restore(before.snapshot())

    assert [after.next_splits(subtask) for subtask in range(4)] == [["a"], None, ["c"], ["d"]]


def test_a_restore_at_another_parallelism_loses_nothing():
    before = StaticSplits("abcd", parallelism=4)
    before.next_splits(1)
    after = StaticSplits("abcdef", parallelism=2)
    after.restore(before.snapshot())

    assert [after.next_splits(subtask) for subtask in range(2)] == [["a", "c"], ["d"]]

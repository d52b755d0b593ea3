"""Who reads what, with another program or another parallelism."""

from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.checkpoint.incremental import IncrementalSnapshots, SnapshotOptions
from funken.checkpoint.restore import RestoreTarget, plan_restore, read_state, uid_warnings
from funken.checkpoint.store.blobs import SubtaskHandle, SubtaskState
from funken.checkpoint.store.completed import Manifest, OperatorEntry, SnapshotKind
from funken.errors import CheckpointIncompatible
from funken.state.delta_tables import KeyedSnapshot, OperatorStates
from funken.testing.memory_storage import MemoryStorage


def saved(storage, states, name="op", keyed_groups=128, uid=True, **fields):
    """An operator whose subtasks have these states."""
    handles = []
    for subtask, state in enumerate(states):
        incremental = IncrementalSnapshots(name, subtask, SnapshotOptions(inline_below=0))
        handles.append(incremental.write(incremental.snapshot(state, 1, **fields), storage))
    return OperatorEntry(name, name, len(handles), keyed_groups, uid, tuple(handles))


def manifest(*operators, **fields):
    return Manifest("job", "job", 1, SnapshotKind.SAVEPOINT, 0, operators, **fields)


def pieces(storage, entry, parallelism, max_parallelism=128):
    plan = plan_restore(manifest(entry), "memory", [RestoreTarget("op", "op", parallelism, max_parallelism)])
    return [list(read_state(storage, plan.subtasks["op", subtask])) for subtask in range(parallelism)]


def own(storage, states, parallelism):
    """What each subtask gets of what is not keyed."""
    return [first for first, *_ in pieces(storage, saved(storage, states), parallelism)]


lists = st.lists(st.lists(st.integers(), max_size=6), min_size=1, max_size=4)


@given(lists, st.integers(1, 5))
def test_splits_are_dealt_out_evenly_and_none_is_lost(former, parallelism):
    numbered = [[(subtask, number) for number in range(len(part))] for subtask, part in enumerate(former)]
    got = [
        piece.operator or []
        for piece in own(MemoryStorage(), [SubtaskState(operator=p) for p in numbered], parallelism)
    ]
    if len(former) == parallelism:
        assert got == numbered
    else:
        assert max(map(len, got)) - min(map(len, got)) <= 1
    assert sorted(chain(*got)) == sorted(chain(*numbered))


@given(lists, st.integers(1, 5))
def test_of_a_union_everybody_gets_all(former, parallelism):
    states = [SubtaskState(operator_state=OperatorStates(union={"all": part})) for part in former]
    for piece in own(MemoryStorage(), states, parallelism):
        assert piece.operator_state.union.get("all", []) == [*chain(*former)]


def test_the_watermark_is_a_subtask_s_own_unless_it_is_rescaled():
    states = [SubtaskState(operator_state=OperatorStates(union={"(watermark)": [watermark]})) for watermark in (70, 63)]

    same, fewer = (own(MemoryStorage(), states, parallelism) for parallelism in (2, 1))

    assert [piece.operator_state.union["(watermark)"] for piece in same] == [[70], [63]]
    assert [piece.operator_state.union["(watermark)"] for piece in fewer] == [[70, 63]]


@given(lists, st.integers(1, 5))
def test_of_a_union_those_who_have_ended_keep_their_own(former, parallelism):
    storage = MemoryStorage()
    entry = saved(storage, [SubtaskState(operator_state=OperatorStates(union={"all": part})) for part in former])
    ended = replace(entry, subtasks=tuple(replace(handle, finished=True) for handle in entry.subtasks))

    kept = [first.operator_state.union.get("all", []) for first, *_ in pieces(storage, ended, parallelism)]

    assert sorted(chain(*kept)) == sorted(chain(*former))
    if len(former) == parallelism:
        assert kept == former


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_of_broadcast_state_everybody_gets_one_copy(parallelism):
    states = [SubtaskState(operator_state=OperatorStates(broadcast={"rules": {"a": 1}})) for _ in range(2)]
    assert [piece.operator_state for piece in own(MemoryStorage(), states, parallelism)] == [
        OperatorStates(broadcast={"rules": {"a": 1}})
    ] * parallelism


def test_records_in_flight_go_to_who_may_take_them():
    states = [SubtaskState(inflight=["x", "y"], inflight_keyed=["a"]), SubtaskState(inflight_keyed=["b"])]
    same = own(MemoryStorage(), states, 2)
    assert [(p.inflight, p.inflight_keyed) for p in same] == [(["x", "y"], ["a"]), ([], ["b"])]
    more = own(MemoryStorage(), states, 3)
    assert [(p.inflight, p.inflight_keyed) for p in more] == [
        (["x"], ["a", "b"]),
        (["y"], ["a", "b"]),
        ([], ["a", "b"]),
    ]


def test_what_belongs_to_one_subtask_alone_is_given_back_to_it():
    states = [SubtaskState(operator="mine"), SubtaskState(operator={"a": 1})]
    assert [p.operator for p in own(MemoryStorage(), states, 2)] == ["mine", {"a": 1}]
    with pytest.raises(
        CheckpointIncompatible, match=r"'operator' cannot be dealt out to 3 subtasks, there were 2\. Call"
    ):
        own(MemoryStorage(), states, 3)


def keyed(groups, max_parallelism=128):
    rows = {group: {"n": [(f"k{group}", None, group)]} for group in groups}
    return SubtaskState(keyed=KeyedSnapshot(max_parallelism, rows, states={"n": {"kind": "value", "ttl": None}}))


def test_a_subtask_reads_only_its_key_groups():
    read = []

    class Watched(MemoryStorage):
        def read(self, name, offset=0, length=None):
            read.append((name, length))
            return super().read(name, offset, length)

    storage = Watched()
    entry = saved(storage, [keyed(range(64)), keyed(range(64, 128))])
    plan = plan_restore(manifest(entry), "memory", [RestoreTarget("op", "op", 4, 128)])
    groups = [[*piece.keyed.groups] for piece in list(read_state(storage, plan.subtasks["op", 3]))[1:]]
    assert groups == [[group] for group in range(96, 128)]
    assert [name for name, _ in read] == [entry.subtasks[1].parts[0].name]  # one read, of neighbours
    assert read[0][1] < entry.subtasks[1].parts[0].length / 1.5


def test_the_maximum_parallelism_cannot_change():
    entry = saved(MemoryStorage(), [keyed([1])])
    with pytest.raises(
        CheckpointIncompatible, match=r"operator 'op' has a maximum parallelism of 256, but .* with 128"
    ):
        plan_restore(manifest(entry), "memory", [RestoreTarget("op", "op", 1, 256)])
    unkeyed = saved(MemoryStorage(), [SubtaskState(operator=[1])])
    assert plan_restore(manifest(unkeyed), "memory", [RestoreTarget("op", "op", 1, 256)]).subtasks


def test_state_without_an_operator_is_refused_unless_that_is_allowed():
    entry = saved(MemoryStorage(), [keyed([1])])
    with pytest.raises(
        CheckpointIncompatible, match=r"of 'op' \(id 'op'\)\. New in the program: 'map' \(id 'other'\)\. Call \.uid"
    ):
        plan_restore(manifest(entry), "memory", [RestoreTarget("other", "map", 1, 128)])
    restoration = plan_restore(
        manifest(entry), "memory", [RestoreTarget("other", "map", 1, 128)], allow_non_restored=True
    )
    assert restoration.subtasks == {}
    assert restoration.warnings == (
        "the program has no operator for the state of 'op' (id 'op'); it is left out, as allowed.",
    )


def test_the_error_names_an_operator_that_may_have_moved():
    entry = saved(MemoryStorage(), [keyed([1])])
    with pytest.raises(
        CheckpointIncompatible, match=r"New in the program: 'op' \(id '4f', job.py, line 3\)\. Call \.uid\('op'\)"
    ):
        plan_restore(manifest(entry), "memory", [RestoreTarget("4f", "op", 1, 128, uid=False, place="job.py, line 3")])


def test_an_operator_without_state_may_come_and_go():
    gone = OperatorEntry("map", "map", 1, 128, False, (SubtaskHandle(),))
    restoration = plan_restore(manifest(gone), "memory", [RestoreTarget("new", "new", 2, 128)])
    assert (restoration.subtasks, restoration.warnings) == ({}, ())


def test_what_the_engine_keeps_for_itself_is_not_missed():
    entry = saved(MemoryStorage(), [SubtaskState(operator_state=OperatorStates(union={"(watermark)": [5]}))], uid=False)
    restoration = plan_restore(manifest(entry), "memory", [RestoreTarget("new", "new", 2, 128)])
    assert restoration.warnings == ()


def test_a_missing_uid_is_a_warning():
    entry = saved(MemoryStorage(), [keyed([1])], uid=False)
    (warning,) = plan_restore(manifest(entry), "memory", [RestoreTarget("op", "op", 1, 128)]).warnings
    assert warning.startswith("operator 'op' has state but no uid") and warning.endswith("Call .uid(...) on it.")
    assert uid_warnings([("a", True, True), ("b", False, False)]) == []


def test_sources_and_sinks_go_on():
    entry = saved(MemoryStorage(), [SubtaskState(), SubtaskState()], committables=["part-0"])
    given = manifest(entry, enumerators={"op": b"splits", "gone": b"x"})
    restoration = plan_restore(given, "memory", [RestoreTarget("op", "op", 1, 128)])
    assert restoration.enumerators == {"op": b"splits"}
    assert restoration.committables == {"op": tuple(handle.committables for handle in entry.subtasks)}


@pytest.mark.parametrize(
    ("ended", "parallelism", "expected"),
    [
        ([True, False], 2, [True, False]),
        ([True, False], 3, [False] * 3),
        ([True, True], 3, [True] * 3),
        ([False, False], 2, [False, False]),
    ],
)
def test_subtasks_that_had_ended_end_again(ended, parallelism, expected):
    entry = OperatorEntry("op", "op", 2, 128, True, tuple(SubtaskHandle(finished=each) for each in ended))
    plan = plan_restore(manifest(entry), "memory", [RestoreTarget("op", "op", parallelism, 128)]).subtasks
    assert [plan["op", subtask].finished for subtask in range(parallelism)] == expected


@pytest.mark.parametrize(
    ("sources", "local", "expected"),
    [
        ([False, True], True, [False, True]),  # behind a source without splits, which is still there
        ([False, True], False, [False, False]),  # the way to it has changed: it reads from all sources
        ([False, True, True], False, [False, False]),
        ([True, True], False, [False, True]),
        ([False], False, [False, False]),
    ],
)
def test_a_subtask_that_had_ended_runs_if_what_it_reads_from_does(sources, local, expected):
    def entry(name, ended):
        return OperatorEntry(name, name, len(ended), 128, True, tuple(SubtaskHandle(finished=each) for each in ended))

    given = replace(
        manifest(entry("map", [False, True])), operators=(entry("map", [False, True]), entry("source", sources))
    )
    targets = [
        RestoreTarget("source", "source", len(sources), 128),
        RestoreTarget("map", "map", 2, 128, inputs=(("source", local),)),
    ]
    plan = plan_restore(given, "memory", targets).subtasks
    assert [plan["map", subtask].finished for subtask in range(2)] == expected
    assert [plan["source", subtask].finished for subtask in range(len(sources))] == sources


@pytest.mark.parametrize(("is_own", "parallelism", "exact"), [(True, 2, True), (False, 2, False), (True, 1, False)])
def test_only_a_job_that_goes_on_as_it_was_goes_on_with_its_blobs(is_own, parallelism, exact):
    entry = saved(MemoryStorage(), [keyed(range(64)), keyed(range(64, 128))])
    plan = plan_restore(manifest(entry), "memory", [RestoreTarget("op", "op", parallelism, 128)], own=is_own).subtasks
    assert [restore.exact for restore in plan.values()] == [exact] * parallelism

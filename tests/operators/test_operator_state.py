"""Operator state: per subtask, dealt out anew when the parallelism changes."""

import pytest

from funken import CheckpointedFunction, FlatMapFunction, ListStateDescriptor, MapStateDescriptor
from funken.errors import StateError
from funken.operators.stateless import FlatMap
from funken.operators.user_functions import UserFunction
from funken.testing import OperatorHarness


class Buffer(FlatMapFunction, CheckpointedFunction):
    """Holds records back in a plain list, and puts them into state for a snapshot."""

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("held"))
        self.held = self.state.get()
        self.restored = context.is_restored()

    def snapshot_state(self, context):
        self.state.update(self.held)

    def flat_map(self, value):
        self.held.append(value)
        if value == "flush":
            yield (*self.held, self.restored)


def buffer(function=None):
    return FlatMap(UserFunction(function or Buffer(), "flat_map", rich=True))


def test_what_a_function_holds_survives_in_operator_state():
    before = OperatorHarness(buffer())
    before.feed_block([1, 2])

    after = OperatorHarness.restored(buffer(), before.snapshot())
    after.feed("flush")

    assert after.output == [(1, 2, "flush", True)]


def test_lists_are_dealt_out_round_robin_and_union_lists_go_to_everybody():
    class Both(Buffer):
        def initialize_state(self, context):
            store = context.get_operator_state_store()
            self.mine = store.get_list_state(ListStateDescriptor("mine"))
            self.all = store.get_union_list_state(ListStateDescriptor("all"))

        def snapshot_state(self, context):
            pass

        def flat_map(self, value):
            if value == "show":
                return [(self.mine.get(), sorted(self.all.get()))]
            self.mine.add(value)
            self.all.add(value)
            return []

    old = [OperatorHarness(buffer(Both()), subtask=i, parallelism=2) for i in range(2)]
    old[0].feed_block([1, 2])
    old[1].feed_block([3])
    snapshots = [harness.snapshot() for harness in old]

    shown = []
    for subtask in range(3):
        new = OperatorHarness.restored(buffer(Both()), *snapshots, subtask=subtask, parallelism=3)
        new.feed("show")
        shown += new.output

    assert shown == [([1], [1, 2, 3]), ([2], [1, 2, 3]), ([3], [1, 2, 3])]


def test_one_name_has_one_kind():
    class Clash(Buffer):
        def initialize_state(self, context):
            store = context.get_operator_state_store()
            store.get_list_state(ListStateDescriptor("x"))
            store.get_broadcast_state(MapStateDescriptor("x"))

    with pytest.raises(StateError, match="'x' as broadcast and as split"):
        OperatorHarness(buffer(Clash()))

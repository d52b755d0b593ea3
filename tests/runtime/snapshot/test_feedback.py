"""What comes back to a head goes on with another parallelism: by key, as a partitioner says, or dealt out."""

from collections import Counter

import pytest

from funken.checkpoint.store.blobs import SubtaskState
from funken.columnar.block import RowBlock
from funken.runtime.exchange.gate import BlockHeader, BlockKind
from funken.runtime.task.state_manager import ChannelState, ChannelStateWriter, edge_names, reassigned
from funken.testing import local

WAYS = {
    "key": lambda stream: stream.key_by(lambda n: n % 10),
    "custom": lambda stream: stream.partition_custom(lambda key, subtasks: key % subtasks, lambda n: n),
    "global": lambda stream: stream.global_(),
    "rebalance": lambda stream: stream.rebalance(),
}


def plan(way, parallelism):
    loop = local([1]).rebalance().iterate().set_parallelism(parallelism)
    loop.close_with(WAYS[way](loop.map(abs).set_parallelism(parallelism)))
    loop.print()
    return loop.get_execution_environment().compile()


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (2, 4)])
def test_every_record_is_restored_once_where_it_belongs(way, before, after):
    first, second = plan(way, before), plan(way, after)
    (old,), (new,) = ([edge for edge in each.edges if edge.feedback] for each in (first, second))
    names = edge_names(first)
    states = []
    for subtask in range(before):
        writer = ChannelStateWriter()
        values = list(range(subtask * 250, subtask * 250 + 250))
        writer.add(BlockHeader(BlockKind.DATA, old.id, 0, subtask, 0, 0, 0.0), RowBlock(values, [7] * 250))
        (found,) = writer.by_operator(first.edges, names).values()
        states.append(found.to_state())

    # as checkpoint/restore.py does it: elements of lists are dealt out, what is keyed is read by all
    elements = [element for state in states for element in state.inflight]
    keyed = [piece for state in states for piece in state.inflight_keyed]
    restored = {subtask: [] for subtask in range(after)}
    for subtask in range(after):
        state = ChannelState()
        state.add(SubtaskState(inflight=elements[subtask::after], inflight_keyed=keyed))
        for piece in [*state.received, *state.keyed]:
            again = reassigned(piece, new, subtask)
            if again is not None:
                assert again.upstream < new.source_parallelism and len(again.timestamps) == len(again.values)
                restored[subtask] += again.values

    assert Counter(n for values in restored.values() for n in values) == Counter(range(before * 250))
    if way == "global":
        assert not any(values for subtask, values in restored.items() if subtask)
    if way == "custom":
        assert all(n % after == subtask for subtask, values in restored.items() for n in values)
    if way == "key":
        assert len({(subtask, n % 10) for subtask, values in restored.items() for n in values}) == 10
    if way == "rebalance":
        assert min(len(values) for values in restored.values()) >= 50

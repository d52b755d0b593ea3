"""What a checkpoint costs a task: the time that its thread stands still, the bytes written, and what tracking costs.

Three operators, a running reduce, a ``KeyedProcessFunction`` with one ``ValueState`` and a tumbling window, get KEYS keys
and are cut once, completely. Then some change, and they are cut again: that is every later checkpoint. What is cut is
pickled in slices, in turn with blocks of records for 10,000 random keys: the longest pause is the barrier or a slice,
whichever took longer, and all slices together are what the checkpoint costs. The cost on the hot path is the operator's
throughput with checkpoints on against off, in turn in one process, with a checkpoint per round. Times are those of the
thread, so that others on the machine count less.

usage: checkpoint_cost.py [KEYS] [--changed N] [--round RECORDS]; aims: 100 ms, ratio 0.95, 1,000,000/s for get and put.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from funken import KeyedProcessFunction, ValueStateDescriptor
from funken.checkpoint.incremental import SnapshotOptions
from funken.ids import CheckpointId
from funken.operators.base import Operator, OperatorContext, Output
from funken.operators.process.one_input import KeyedProcess
from funken.operators.rolling import RollingReduce
from funken.operators.user_functions import UserFunction
from funken.operators.window.spec import Reduced, WindowSpec
from funken.runtime.settings import CheckpointPlan
from funken.runtime.task.state_manager import Materializer, TaskStateManager
from funken.state.backend import HashMapBackend
from funken.state.keyed import KeyedStateStore
from funken.testing.memory_storage import MemoryStorage
from funken.timing.timers import InternalTimerService
from funken.windowing.assigners import TumblingEventTimeWindows

BLOCK = 1000
GROUPS = 128


class Sum(KeyedProcessFunction):
    """One get and one put per record."""

    def open(self, runtime_context: Any) -> None:
        """Get the state."""
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum", default=0))

    def process_element(self, value: Any, ctx: Any) -> None:
        """Add a record."""
        self._sum.update(self._sum.value() + value[1])


def key_of(pair: Any) -> Any:
    """Return the key."""
    return pair[0]


def reduce() -> Operator:
    """Make a running reduce."""
    return RollingReduce(UserFunction(key_of), UserFunction(lambda a, b: (a[0], a[1] + b[1]))).build()


def process() -> Operator:
    """Make a process function."""
    return KeyedProcess(UserFunction(Sum(), None, rich=True), UserFunction(key_of)).build()


def window() -> Operator:
    """Make a window in which all records are."""
    reduced = Reduced(UserFunction(lambda a, b: (a[0], a[1] + b[1])))
    return WindowSpec(UserFunction(key_of), TumblingEventTimeWindows.of(1000), reduced).build()


def opened(operator: Operator, checkpointing: bool) -> Operator:
    """Open an operator as a task does."""
    keyed = KeyedStateStore(GROUPS, range(GROUPS), lambda: 0, HashMapBackend(tracked=checkpointing))
    timers = InternalTimerService(lambda: 0, GROUPS, range(GROUPS), checkpointing)
    output = Output()
    output.emit = lambda values, timestamps: None
    operator.setup(
        OperatorContext("op", 0, 1, GROUPS, lambda: 0, keyed=keyed, timers=timers, checkpointing=checkpointing), output
    )
    operator.open()
    return operator


def feed(operator: Operator, keys: range) -> None:
    """Give an operator one record per key."""
    for start in range(0, len(keys), BLOCK):
        feed_some(operator, keys[start : start + BLOCK])


def feed_some(operator: Operator, keys: Sequence[int]) -> None:
    """Give an operator a block."""
    operator.process([(key, 1) for key in keys], [0] * len(keys))


def checkpoints(make: Callable[[], Operator], keys: int, changed: int) -> None:
    """Print what the first checkpoint and later ones cost."""
    operator = opened(make(), checkpointing=True)
    node = SimpleNamespace(id=0, name="op")
    chain: Any = SimpleNamespace(vertex=SimpleNamespace(nodes=[node]), operators={0: operator}, head=operator)
    chance, clock = random.Random(2), time.thread_time
    snapshots = TaskStateManager(
        CheckpointPlan("", SnapshotOptions(inline_below=0)), {0: "op"}, 0, Materializer(clock=clock)
    )
    snapshots.restore(chain)
    storage = MemoryStorage()
    feed(operator, range(keys))
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)  # as a worker does
    meanwhile = [[chance.randrange(keys) for _ in range(BLOCK)] for _ in range(10)]

    def checkpoint(number: int, what: str) -> None:
        before = sum(map(len, storage.files.values()))
        begin = clock()
        snapshots.snapshot(chain, CheckpointId(number))
        barrier = clock() - begin
        slices, blocks = [0.0], 0.0
        while snapshots.materializer.open:
            begin = clock()
            feed_some(operator, meanwhile[len(slices) % len(meanwhile)])
            blocks += clock() - begin
            begin = clock()
            snapshots.materializer.step()
            slices.append(clock() - begin)
        for lineage, cut in snapshots.take(CheckpointId(number)).snapshots.values():
            lineage.write(cut, storage)
        size = sum(map(len, storage.files.values())) - before
        longest, total = max(barrier, *slices) * 1000, (barrier + sum(slices)) * 1000
        print(
            f"  {what:18} longest pause {longest:8,.1f} ms (barrier {barrier * 1000:,.1f}), in all {total:10,.1f} ms in "
            f"{len(slices):6,} slices, {blocks / len(slices) * 1000:.2f} ms per block, {size:13,} bytes",
            flush=True,
        )

    checkpoint(1, "first, complete:")
    for number, count in enumerate((changed // 10, changed, changed, min(keys, 1_000_000), 0), 2):
        step = max(1, keys // max(count, 1))
        feed(operator, range(0, count * step, step))
        checkpoint(number, f"{count:,} changed:")


def seconds(operator: Operator, blocks: list[Any], rounds: int) -> float:
    """Return how long an operator takes for blocks."""
    begin, stamps = time.thread_time(), [0] * BLOCK
    for _ in range(rounds):
        for block in blocks:
            operator.process(block, stamps)
    return time.thread_time() - begin


def hot_path(make: Callable[[], Operator], keys: int, records: int) -> None:
    """Print the throughput with tracking and without; the first comes back to keys that changed since a checkpoint."""
    tracked, plain = opened(make(), checkpointing=True), opened(make(), checkpointing=False)
    shuffled = random.Random(1).choices(range(keys), k=max(keys, 100 * BLOCK))  # in order, the age of the heap counts
    blocks = [[(key, 1) for key in shuffled[start : start + BLOCK]] for start in range(0, len(shuffled), BLOCK)]
    rounds = max(1, records // (len(blocks) * BLOCK))
    spent: dict[Operator, list[float]] = {tracked: [], plain: []}
    for number in range(7):
        for operator in (tracked, plain) if number % 2 else (plain, tracked):
            spent[operator].append(seconds(operator, blocks, rounds))
        for ask in tracked.context.before_snapshot:
            ask()
        assert tracked.context.keyed is not None
        tracked.context.keyed.snapshot_changes()
    ratio = statistics.median(b / a for a, b in zip(spent[tracked][1:], spent[plain][1:], strict=True))
    speed = rounds * len(blocks) * BLOCK / min(spent[tracked][1:])
    print(f"  {keys:9,} keys:         ratio {ratio:.3f}, with checkpoints {speed:,.0f} records/s", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keys", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--changed", type=int, default=10_000)
    parser.add_argument("--round", type=int, default=3_000_000)
    args = parser.parse_args()
    for name, make in (
        ("running reduce", reduce), ("ValueState, get and put", process), ("tumbling window, reduced", window)
    ):  # fmt: skip
        print(name)
        for keys in (1000, 100_000):
            hot_path(make, keys, args.round)
        checkpoints(make, args.keys, args.changed)
        gc.collect()


if __name__ == "__main__":
    main()

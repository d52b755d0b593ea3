"""The drivers that look records up in the solution set of a delta iteration."""

from __future__ import annotations

from typing import Any

from funken.dataset.memory.blocks import Blocks, blocks_of
from funken.dataset.runtime.groups import groups
from funken.dataset.runtime.joins import joined
from funken.dataset.runtime.task import DriverTask


def look_up_second(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Pair each record of the first side with its entry, or with None if there is none."""
    make, find, keys = joined(task), task.kept["solution"].get, task.column(task.node.keys[0])
    for block in first:
        if made := make(list(zip(block, map(find, keys(block)), strict=True))):
            yield made


def look_up_first(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Pair the entry, or None, with each record of the second side."""
    make, find, keys = joined(task), task.kept["solution"].get, task.column(task.node.keys[1])
    for block in second:
        if made := make(list(zip(map(find, keys(block)), block, strict=True))):
            yield made


def co_group_second(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Call the function with each group of the first side and its entry, if there is one."""
    return _grouped(task, first, 0)


def co_group_first(task: DriverTask, first: Blocks, second: Blocks) -> Blocks:
    """Call the function with the entry, if there is one, and each group of the second side."""
    return _grouped(task, second, 1)


def _grouped(task: DriverTask, blocks: Blocks, side: int) -> Blocks:
    function, find = task.function(), task.kept["solution"].get

    def sides(key: Any, group: Any) -> tuple[Any, Any]:
        entry = find(key)
        found = iter(() if entry is None else (entry,))
        return (group, found) if side == 0 else (found, group)

    yield from blocks_of(
        record
        for key, group in groups(blocks, task.column(task.node.keys[side]))
        for record in task.results(function, f"the groups of the key {key!r}", *sides(key, group))
    )

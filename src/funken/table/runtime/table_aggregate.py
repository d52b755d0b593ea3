"""Table aggregates: of each group any number of rows, which are all taken back and given anew when a row of the group comes."""

from __future__ import annotations

from typing import Any

from funken.table.runtime.block import DELETE, INSERT
from funken.table.runtime.group import GroupAggregate

Tuple = tuple[Any, ...]


class GroupTableAggregate(GroupAggregate):
    """The rows of each group as one value, to be unnested. They have no key, so that none of them replaces another."""

    def _emit(self, group: list[Any], key: Tuple, first: bool) -> None:
        if not first:
            self.collect((*key, *group[2]), DELETE)
        if self._retracts and group[0] == 0:
            group[1] = group[2] = None
            return
        group[2] = self._aggregates.values(group[1])
        self.collect((*key, *group[2]), INSERT)

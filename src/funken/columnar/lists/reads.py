"""What an expression looks at: fields of its first argument, and fields of the items of its lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from operator import getitem
from typing import Any, cast

from funken.columnar.expressions import Argument, Expression, Rowwise
from funken.columnar.records import leaves_looked_at
from funken.expr.types import ListOf, Type, atomic_fields

ITEMS = -1
"""In a path, it stands between that of a list and that of a field of its items; twice, for how many there are."""
_Path = tuple[int, ...]


def _bare(made: Expression) -> Expression:
    """Return an expression without the test that it is not ``None``."""
    match made:
        case Rowwise("not none", (operand,)):
            return operand
    return made


class Reads:
    """Notes what is looked at while an expression is typed.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> reads = Reads()
    >>> items = Argument(0, (1,)), ListOf(Tuple((STR, INT)))
    >>> reads.fields.add((1,))
    >>> reads.loop(items, 101, used=0)
    >>> reads.item(Argument(101, (0,)))
    >>> sorted(reads.paths(Tuple((INT, items[1]))))
    [(1, -1, -1), (1, -1, 0)]
    """

    def __init__(self) -> None:
        #: the paths of the fields that were looked at, of records too
        self.fields: set[_Path] = set()
        #: by the number of an argument that is the item of a list: the path of the list
        self._over: dict[int, _Path] = {}
        #: how often lists are used, but for their items
        self._lists: Counter[_Path] = Counter()
        self._of_items: set[_Path] = set()

    def count(self, found: tuple[Expression, Type], uses: int) -> bool:
        """Count uses of a list of the first argument, or take them back; return whether it is one."""
        made, schema = _bare(found[0]), found[1]
        if isinstance(made, Argument) and made.argument == 0 and isinstance(schema.required, ListOf):
            self._lists[made.path] += uses
            return True
        return False

    def loop(self, items: tuple[Expression, Type], number: int, used: int = 1) -> None:
        """Note that an argument is the item of lists, which is what they were ``used`` for."""
        made = _bare(items[0])
        if self.count(items, -used) and isinstance(made, Argument):
            self._over[number] = made.path

    def item(self, made: Argument) -> None:
        """Note that a field of an item, or all of it, is looked at."""
        if made.argument in self._over:
            self._of_items.add((*self._over[made.argument], ITEMS, *made.path))

    def all_of(self, made: Argument, schemas: Mapping[int, Type]) -> None:
        """Note that an argument, or a field of it, may be looked at whatever is in it; ``schemas`` are those of arguments."""
        if made.argument in schemas and (made.argument == 0 or made.argument in self._over):
            leaves = [leaf for leaf, _ in atomic_fields(schemas[made.argument]) if leaf[: len(made.path)] == made.path]
            if made.argument == 0:
                self.fields.update(leaves)
            else:
                self._of_items.update((*self._over[made.argument], ITEMS, *leaf) for leaf in leaves)

    def paths(self, schema: Type) -> frozenset[_Path]:
        """Return the leaves that were looked at; of lists of which only items were, the paths of these."""
        found = set(leaves_looked_at(schema, self.fields))
        for path, uses in self._lists.items():
            if not uses and path in found:
                within = (*path, ITEMS)
                found.discard(path)
                lists: Any = reduce(getitem, path, cast("Any", schema))
                inner = [each[len(within) :] for each in self._of_items if each[: len(within)] == within]
                found |= {
                    (*within, ITEMS),
                    *((*within, *leaf) for leaf in leaves_looked_at(lists.required.element, inner)),
                }
        return frozenset(found)


__all__ = ["ITEMS", "Reads"]

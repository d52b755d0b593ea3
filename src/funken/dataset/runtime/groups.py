"""Groups: runs of equal keys in sorted blocks, seen one after the other without holding any of them in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from funken.dataset.memory.blocks import Block
from funken.dataset.memory.order import Column

_key, _record = itemgetter(0), itemgetter(1)


def groups(blocks: Iterator[Block], keys: Column) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Return the key and the records of each group; the records are read before the next group is.

    >>> [(key, list(group)) for key, group in groups(iter([[(1, "a"), (1, "b")], [(2, "c")]]), lambda b: [r[0] for r in b])]
    [(1, [(1, 'a'), (1, 'b')]), (2, [(2, 'c')])]
    """
    pairs = chain.from_iterable(zip(keys(block), block, strict=True) for block in blocks)
    for key, group in groupby(pairs, key=_key):
        yield key, map(_record, group)


Groups = Iterator[tuple[Any, Iterator[Any]]]


def merged(first: Groups, second: Groups) -> Iterator[tuple[Any, Iterator[Any], Iterator[Any]]]:
    """Return the groups of two sides by key, in order; a side without the key has an empty one.

    >>> left, right = iter([(1, iter("a")), (2, iter("b"))]), iter([(2, iter("x"))])
    >>> [(key, list(ones), list(others)) for key, ones, others in merged(left, right)]
    [(1, ['a'], []), (2, ['b'], ['x'])]
    """
    one, other = next(first, None), next(second, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[0] < other[0]):
            assert one is not None
            yield one[0], one[1], iter(())
            one = next(first, None)
        elif one is None or other[0] < one[0]:
            yield other[0], iter(()), other[1]
            other = next(second, None)
        else:
            yield one[0], one[1], other[1]
            one, other = next(first, None), next(second, None)


def reduced(records: Block, keys: Column, reduce: Callable[[Any, Any], Any]) -> Iterator[Any]:
    """Reduce the runs of equal keys of sorted records."""
    for _, group in groups(iter([records]), keys):
        result = next(group)
        for record in group:
            result = reduce(result, record)
        yield result

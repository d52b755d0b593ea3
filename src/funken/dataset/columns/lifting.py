"""Tuples that functions have made, as columns.

Invariant: what comes of it gives the same records again, types included, so only ``int``, ``float`` and ``str`` are lifted, and
no subclass of them. Nothing here loads NumPy before there is a block that can be lifted.
"""

from __future__ import annotations

import marshal
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from funken.expr.types import FLOAT, INT, STR, Composite, Tuple

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Column, Columns
    from funken.dataset.memory.blocks import Block

_LIFTED = {int: INT, float: FLOAT, str: STR}
"""Kinds of fields that become columns; an array of bools would not be smaller."""
_VERSION = 2
"""Of marshal's format: every value is written where it is used, floats as eight bytes."""
_WIDE = 1 << 31


def lifted(block: Block) -> Columns | None:
    """Return records of a list as columns; None unless they are tuples of one width whose fields are of one plain type each.

    >>> lifted([(1, 0.5, "a"), (2, 1.5, "b")]).to_list()
    [(1, 0.5, 'a'), (2, 1.5, 'b')]
    >>> [lifted(block) for block in ([(1, 2), (1, 2.0)], [(1,), (1, 2)], [(2**63,)], [(True,)], [[1]], [(1, None)])]
    [None, None, None, None, None, None]
    """
    # Hot: once per block, all loops are in C; see ``benchmarks/columns.py --only lifted``.
    first = block[0] if block else ()
    if type(first) is not tuple or not first:
        return None
    kinds = Tuple(_LIFTED[type(value)] for value in first if type(value) in _LIFTED)
    if len(kinds) < len(first):
        return None
    leaves = _of_numbers(block, first, kinds) or _of_fields(block, kinds)
    if leaves is None:
        return None
    from funken.columnar.kernels.columns import Columns as Made  # noqa: PLC0415 - loads NumPy

    return Made(kinds, leaves, len(block))


def _of_numbers(block: Block, first: tuple[Any, ...], kinds: Composite) -> list[Column] | None:
    """Return columns of floats and of ints of 32 bits, which ``marshal`` writes at once; None if there is anything else."""
    if type(block) is not list or not all(map(_is_short, first)):
        return None
    try:
        data = marshal.dumps(block, _VERSION)
    except ValueError:  # something that is no plain value
        return None
    from funken.columnar.keyed.codec import marshalled_numbers  # noqa: PLC0415 - loads NumPy

    return marshalled_numbers(data, kinds, len(block))


def _is_short(value: Any) -> bool:
    return type(value) is float or (type(value) is int and -_WIDE <= value < _WIDE)


def _of_fields(block: Block, kinds: Composite) -> list[Column] | None:
    """Return the columns of tuples with such fields; None if there is anything else."""
    if set(map(type, block)) != {tuple} or set(map(len, block)) != {len(kinds)}:
        return None
    fields = [list(map(itemgetter(place), block)) for place in range(len(kinds))]
    if any(set(map(type, field)) != {type(field[0])} for field in fields):
        return None
    from funken.columnar.kernels.columns import column_of  # noqa: PLC0415 - loads NumPy

    try:
        return [column_of(field, _LIFTED[type(field[0])]) for field in fields]
    except (OverflowError, UnicodeEncodeError):  # more than 64 bits, or a text that has no encoding
        return None

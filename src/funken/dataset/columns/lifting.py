"""Tuples that functions have made, as columns.

Invariant: what comes of it gives the same records again, types included, so only ``int``, ``float`` and ``str`` are lifted, and
no subclass of them. Nothing here loads NumPy before there is a block that can be lifted.
"""

from __future__ import annotations

import marshal
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Column, Columns
    from funken.dataset.memory.blocks import Block

_LIFTED = {int: "int", float: "float", str: "str"}
"""Kinds of fields that become columns; an array of bools would not be smaller."""
_VERSION = 2
"""Of marshal's format: every value is written where it is used, floats as eight bytes."""
_HEAD = 5
"""Bytes of a list's or a tuple's tag and length."""
_TAGS = {int: (b"i", "<i4"), float: (b"g", "<f8")}
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
    kinds = tuple(_LIFTED.get(type(value), "") for value in first)
    if not all(kinds):
        return None
    leaves = _of_numbers(block, first) or _of_fields(block, kinds)
    if leaves is None:
        return None
    from funken.columnar.kernels.columns import Columns as Made  # noqa: PLC0415 - loads NumPy

    return Made(kinds, leaves, len(block))


def _of_numbers(block: Block, first: tuple[Any, ...]) -> list[Column] | None:
    """Return the columns of tuples of floats and of ints of 32 bits; None if there is anything else.

    ``marshal`` writes all of it in one pass, each value behind a tag of its exact type and as long as that says. If the tags of
    each record are those of the first one, so are the places of the next record's: nothing else can be taken for numbers.
    """
    if type(block) is not list:
        return None
    fields = []
    for place, value in enumerate(first):
        tag = _TAGS.get(type(value))
        if tag is None or (type(value) is int and not -_WIDE <= value < _WIDE):
            return None
        fields += [(f"tag{place}", "S1"), (f"value{place}", tag[1])]
    try:
        data = marshal.dumps(block, _VERSION)
    except ValueError:  # something that is no plain value
        return None
    import numpy as np  # noqa: PLC0415 - not for programs without columns

    from funken.columnar.kernels.columns import Column as Made  # noqa: PLC0415 - loads NumPy

    layout = np.dtype([("head", "S1"), ("width", "<i4"), *fields])
    if len(data) != _HEAD + layout.itemsize * len(block):
        return None
    found = np.frombuffer(data, layout, len(block), _HEAD)
    if not ((found["head"] == b"(").all() and (found["width"] == len(first)).all()):
        return None
    made = []
    for place, value in enumerate(first):
        if not (found[f"tag{place}"] == _TAGS[type(value)][0]).all():
            return None
        kind = _LIFTED[type(value)]
        made.append(Made(kind, found[f"value{place}"].astype(np.int64 if kind == "int" else np.float64)))
    return made


def _of_fields(block: Block, kinds: tuple[str, ...]) -> list[Column] | None:
    """Return the columns of tuples with such fields; None if there is anything else."""
    if set(map(type, block)) != {tuple} or set(map(len, block)) != {len(kinds)}:
        return None
    fields = [list(map(itemgetter(place), block)) for place in range(len(kinds))]
    if any(set(map(type, field)) != {type(field[0])} for field in fields):
        return None
    from funken.columnar.kernels.columns import column_of  # noqa: PLC0415 - loads NumPy

    try:
        return [column_of(field, kind) for field, kind in zip(fields, kinds, strict=True)]
    except (OverflowError, UnicodeEncodeError):  # more than 64 bits, or a text that has no encoding
        return None

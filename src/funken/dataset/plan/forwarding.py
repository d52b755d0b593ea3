"""Forwarded fields: the promise of a function that fields come through unchanged, and where they are then.

``"f0; f2->f1"`` says that field 0 stays where it is and field 2 becomes field 1; ``"*"`` is the whole record, and
``"f0->*"`` says that the output is field 0.
"""

from __future__ import annotations

from funken.dataset.plan.keys import Key, make_paths
from funken.dataset.plan.nodes import Forwarded
from funken.dataset.plan.record_type import UNKNOWN, Path, RecordType
from funken.errors import InvalidProgram


def parse_forwarded(text: str, side: int, records: RecordType, operator: str) -> Forwarded:
    """Read a declaration for one input.

    >>> parse_forwarded("f0; f2->f1", 0, UNKNOWN, "map")
    ((0, (0,), (0,)), (0, (2,), (1,)))
    """
    found: list[tuple[int, Path, Path]] = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        source, arrow, target = (piece.strip() for piece in part.partition("->"))
        if not source or (arrow and not target):
            raise InvalidProgram(f"{operator}: cannot read the forwarded fields {text!r}; write 'f0; f2->f1'.")
        targets = _path(target, UNKNOWN, operator) if arrow else None
        for path in _path(source, records, operator):
            found += [(side, path, to) for to in targets] if targets else [(side, path, path)]
    return Forwarded(found)


def _path(text: str, records: RecordType, operator: str) -> tuple[Path, ...]:
    expression: int | str = int(text) if text.isdigit() else text
    if expression == "*":
        return ((),)
    return make_paths([expression], records, operator)


def forward(path: Path, forwarded: Forwarded, side: int = 0) -> Path | None:
    """Return where a field of an input is in the output; None if it is lost, or may have changed.

    >>> forward((2, 5), Forwarded([(0, (2,), (1,))]))
    (1, 5)
    """
    for of, source, target in forwarded:
        if of == side and path[: len(source)] == source:
            return (*target, *path[len(source) :])
    return None


def backward(path: Path, forwarded: Forwarded, side: int = 0) -> Path | None:
    """Return where a field of the output was in an input.

    >>> backward((1,), Forwarded([(0, (2,), (1,))]))
    (2,)
    """
    for of, source, target in forwarded:
        if of == side and path[: len(target)] == target:
            return (*source, *path[len(target) :])
    return None


def backward_key(key: Key, forwarded: Forwarded, side: int = 0) -> Key | None:
    """Return the key of an input that is this key of the output; None if a field of it is not forwarded."""
    if not key.transparent:
        return key if (side, (), ()) in forwarded else None
    paths = [backward(path, forwarded, side) for path in key.paths]
    return None if None in paths else Key(tuple(path for path in paths if path is not None))

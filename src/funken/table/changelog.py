"""``ChangelogMode``: the kinds of change that a stream of rows has, or that a sink takes."""

from __future__ import annotations

from collections.abc import Iterable

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.types.row import RowKind

_SHORT = {
    RowKind.INSERT: "I",
    RowKind.UPDATE_BEFORE: "UB",
    RowKind.UPDATE_AFTER: "UA",
    RowKind.DELETE: "D",
}
_KINDS = {short: kind for kind, short in _SHORT.items()}


@dataclass(frozen=True)
class ChangelogMode:
    """A set of row kinds; ``key_only_deletes``: a deletion may have no more than its key.

    >>> print(ChangelogMode.insert_only(), ChangelogMode.upsert(), ChangelogMode.all())
    [I] [I,UA,D] [I,UB,UA,D]
    """

    kinds: frozenset[RowKind]
    key_only_deletes: bool = False

    @staticmethod
    def of(*kinds: RowKind, key_only_deletes: bool = False) -> ChangelogMode:
        """Return the mode of these row kinds.

        >>> print(ChangelogMode.of(RowKind.INSERT, RowKind.DELETE))
        [I,D]
        """
        return ChangelogMode(frozenset(kinds), key_only_deletes)

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Return the mode of streams that only grow."""
        return ChangelogMode.of(RowKind.INSERT)

    @staticmethod
    def upsert(key_only_deletes: bool = True) -> ChangelogMode:
        """Return the mode of streams with a key, whose updates have no row before them.

        >>> ChangelogMode.upsert().is_upsert, ChangelogMode.all().is_upsert
        (True, False)
        """
        return ChangelogMode.of(RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE, key_only_deletes=key_only_deletes)

    @staticmethod
    def all() -> ChangelogMode:
        """Return the mode of every row kind."""
        return ChangelogMode(frozenset(RowKind))

    @staticmethod
    def parse(text: str) -> ChangelogMode:
        """Return the mode of a text such as ``I,UA,D``; raises ``InvalidProgram``.

        >>> print(ChangelogMode.parse("I, UA,D"))
        [I,UA,D]
        >>> ChangelogMode.parse("I,X")
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: 'X' is no kind of change; write a list of I, UB, UA and D.
        """
        kinds = []
        for part in text.split(","):
            short = part.strip()
            if short not in _KINDS:
                raise InvalidProgram(f"{short!r} is no kind of change; write a list of I, UB, UA and D.")
            kinds.append(_KINDS[short])
        return ChangelogMode(frozenset(kinds))

    @property
    def is_insert_only(self) -> bool:
        """True if rows are only added.

        >>> ChangelogMode.insert_only().is_insert_only
        True
        """
        return self.kinds == frozenset((RowKind.INSERT,))

    @property
    def is_upsert(self) -> bool:
        """True if updates come without the row before."""
        return RowKind.UPDATE_AFTER in self.kinds and RowKind.UPDATE_BEFORE not in self.kinds

    def contains(self, kind: RowKind) -> bool:
        """Return True if a row kind is in the mode.

        >>> ChangelogMode.upsert().contains(RowKind.UPDATE_BEFORE)
        False
        """
        return kind in self.kinds

    def takes(self, kinds: Iterable[RowKind]) -> bool:
        """Return True if all these row kinds are in the mode.

        >>> ChangelogMode.upsert().takes([RowKind.INSERT, RowKind.DELETE])
        True
        """
        return self.kinds.issuperset(kinds)

    def __str__(self) -> str:
        return f"[{','.join(short for kind, short in _SHORT.items() if kind in self.kinds)}]"

"""After-match skip strategies: which partial and finished matches an emitted match discards."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from funken.cep.buffer import Node
from funken.errors import InvalidProgram


class NoSuchSkipTarget(InvalidProgram):
    """``throw_exception_on_miss`` was asked for, and a match has no event to skip to, or only its own first one."""


class SkipKind(Enum):
    """Where the search goes on after a match."""

    NONE = "no skip"
    NEXT = "skip to next"
    PAST_LAST = "skip past last event"
    FIRST = "skip to first"
    LAST = "skip to last"


@dataclass(frozen=True)
class AfterMatchSkipStrategy:
    """Where the search goes on after a match; ``no_skip`` is the default.

    >>> from funken.cep import Pattern, matches_of
    >>> def runs(skip):
    ...     pattern = Pattern.begin("low", skip).where(lambda n: n < 5).times(2).consecutive()
    ...     return [match["low"] for match in matches_of(pattern, [1, 2, 3, 4])]
    >>> runs(AfterMatchSkipStrategy.no_skip())
    [[1, 2], [2, 3], [3, 4]]
    >>> runs(AfterMatchSkipStrategy.skip_past_last_event())
    [[1, 2], [3, 4]]
    >>> runs(AfterMatchSkipStrategy.skip_to_next())
    [[1, 2], [2, 3], [3, 4]]
    >>> runs(AfterMatchSkipStrategy.skip_to_first("low")) == runs(AfterMatchSkipStrategy.skip_to_last("low"))
    True
    >>> runs(AfterMatchSkipStrategy.skip_to_first("low").throw_exception_on_miss())
    Traceback (most recent call last):
    ...
    funken.cep.skip.NoSuchSkipTarget: skip to first 'low': it is the match's own first event, so the search would not...
    """

    kind: SkipKind = SkipKind.NONE
    name: str | None = None
    strict: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Emit every match."""
        return AfterMatchSkipStrategy()

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Discard the other matches that start with the same event."""
        return AfterMatchSkipStrategy(SkipKind.NEXT)

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Discard every match that starts before the emitted one ended."""
        return AfterMatchSkipStrategy(SkipKind.PAST_LAST)

    @staticmethod
    def skip_to_first(name: str) -> AfterMatchSkipStrategy:
        """Discard every match that starts before the first event of that pattern."""
        return AfterMatchSkipStrategy(SkipKind.FIRST, name)

    @staticmethod
    def skip_to_last(name: str) -> AfterMatchSkipStrategy:
        """Discard every match that starts before the last event of that pattern."""
        return AfterMatchSkipStrategy(SkipKind.LAST, name)

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail where the pattern to skip to took no event, or only the match's first one."""
        return replace(self, strict=True)

    def start_of_search(self, path: list[Node], targets: Collection[str] = ()) -> int | None:
        """Return the first position at which a match may start after this one; ``None``: anywhere.

        ``targets``: the names of the nodes that are skipped to, if the pattern of that name has others.
        """
        if self.kind is SkipKind.NEXT:
            return path[0].event.position + 1
        if self.kind is SkipKind.PAST_LAST:
            return path[-1].event.position + 1
        taken = [node.event.position for node in path if node.name in (targets or (self.name,))]
        if not taken:
            if self.strict:
                raise NoSuchSkipTarget(f"{self}: the match has no event of this pattern. Allow it, or skip elsewhere.")
            return None
        target = taken[0] if self.kind is SkipKind.FIRST else taken[-1]
        if self.strict and target == path[0].event.position:
            raise NoSuchSkipTarget(f"{self}: it is the match's own first event, so the search would not advance.")
        return target

    def __str__(self) -> str:
        return self.kind.value + (f" {self.name!r}" if self.name else "")

"""Texts of which some are known when a job is planned: what they hold can be looked at, before ``json.loads`` parses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from funken.columnar.block import Block
from funken.columnar.expressions import Expression
from funken.dataclass import dataclass
from funken.expr.types import STR, Str, Type


class DocumentParser(Protocol):
    """Parses texts that hold documents; its pickled form is all that travels."""

    @property
    def schema(self) -> Type:
        """The schema of the documents, as far as some of them show it."""
        ...

    def parse(self, texts: Sequence[str], wanted: tuple[int, ...] | None) -> Block | None:
        """Return documents as columns, of which ``wanted`` leaves are made; ``None``: one of them is of another form."""
        ...


class SampledText(Str):
    """The type of texts, which knows how to look at some of them; ``documents`` raises ``NotVectorizable``.

    >>> SampledText(lambda: None) == STR, STR == SampledText(lambda: None), SampledText(lambda: None) in {STR}
    (True, True, True)
    """

    __slots__ = ("documents",)

    def __init__(self, documents: Callable[[], DocumentParser]) -> None:
        super().__init__(STR.name, STR.constant)
        self.documents = documents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Str)

    def __hash__(self) -> int:
        return hash(STR)

    def __reduce__(self) -> tuple[Any, ...]:
        return _text, ()  # what the texts hold is asked for when a job is planned only


def _text() -> Str:
    return STR


@dataclass(frozen=True)
class Parsed(Expression):
    """Documents in texts; ``wanted`` are the leaves of their schema that are made (``None``: all)."""

    raises = True

    text: Expression
    parser: DocumentParser
    wanted: tuple[int, ...] | None = None


__all__ = ["DocumentParser", "Parsed", "SampledText"]

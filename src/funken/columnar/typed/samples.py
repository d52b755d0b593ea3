"""Texts of which some are known when a job is planned: what they hold can be looked at, before ``json.loads`` parses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from funken.columnar.block import Block
from funken.columnar.expressions import STR, Expression, RecordSchema
from funken.dataclass import dataclass


class DocumentParser(Protocol):
    """Parses texts that hold documents; its pickled form is all that travels."""

    @property
    def schema(self) -> RecordSchema:
        """The schema of the documents, as far as some of them show it."""
        ...

    def parse(self, texts: Sequence[str], wanted: tuple[int, ...] | None) -> Block | None:
        """Return documents as columns, of which ``wanted`` leaves are made; ``None``: one of them is of another form."""
        ...


class SampledText(str):
    """The kind of texts, which knows how to look at some of them; ``documents`` raises ``NotVectorizable``.

    >>> SampledText(lambda: None) == "str", SampledText(lambda: None) in {"str"}
    (True, True)
    """

    documents: Callable[[], DocumentParser]

    def __new__(cls, documents: Callable[[], DocumentParser]) -> SampledText:
        """Make the kind."""
        made = super().__new__(cls, STR)
        made.documents = documents
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (STR,)


@dataclass(frozen=True)
class Parsed(Expression):
    """Documents in texts; ``wanted`` are the leaves of their schema that are made (``None``: all)."""

    raises = True

    text: Expression
    parser: DocumentParser
    wanted: tuple[int, ...] | None = None


__all__ = ["DocumentParser", "Parsed", "SampledText"]

"""What is taken of texts that are split, without the lists: ``split(...)[1]``, ``len(split(...))``, ``partition``.

A text that is split in several places of a function, by the same separator, is looked through once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.expressions import INT, STR, Constant, Expression, Rowwise
from funken.columnar.kernels.arithmetic import FallBackToRows
from funken.columnar.kernels.columns import Array, Column
from funken.columnar.kernels.cuts import Separated, overlaps_itself
from funken.columnar.kernels.text import split_by_spaces


class Splits:
    """The texts of one block that are split."""

    def __init__(self, column_of: Callable[[Expression], Column]) -> None:
        self._column_of = column_of
        self._separated: dict[tuple[int, str], Separated] = {}
        self._words: dict[int, tuple[Any, Array] | None] = {}

    def of(self, expression: Rowwise) -> Column | None:
        """Compute what is taken of a text that is split; ``None`` if it is not taken here."""
        match expression:
            case Rowwise("item", (Rowwise("str.split" | "str.rsplit") as split, Constant(int(number)))):
                return self._part(split, number)
            case Rowwise("len", (Rowwise("str.split" | "str.rsplit") as split,)):
                counts = self._counts(split)
                return None if counts is None else Column(INT, counts)
            case Rowwise("str.partition.0" | "str.partition.1" | "str.partition.2", (text, Constant(str(separator)))):
                separated = self._separate(text, separator)
                return (
                    None if separated is None else self._partitioned(int(expression.function[-1]), separated, separator)
                )
            case Rowwise(function, (Rowwise("str.split" | "str.rsplit") as split,)) if function.startswith("unpack "):
                _, count, number = function.split()
                return self._part(split, int(number), int(count))
        return None

    def _part(self, split: Rowwise, number: int, of: int | None = None) -> Column | None:
        if of is not None:
            counts = self._counts(split)
            if counts is None:
                return None
            if bool((counts != of).any()):
                raise FallBackToRows("a list of another length to unpack")
        match split.arguments:
            case (text,):
                return self._word(text, number)
            case (text, Constant(str(separator)), *most):
                limit = _limit(most)
                separated = self._separate(text, separator)
                if separated is None or (limit != 1 and overlaps_itself(separator)) or limit == -1:
                    return None
                backwards = split.function == "str.rsplit"
                if limit == 1 and backwards and overlaps_itself(separator):
                    return None
                return Column(STR, separated.part(number, limit, backwards and limit is not None))
        return None

    def _counts(self, split: Rowwise) -> Array | None:
        """Return how many parts texts have."""
        match split.arguments:
            case (text,):
                words = self._words_of(text)
                return None if words is None else words[1]
            case (text, Constant(str(separator)), *most):
                limit = _limit(most)
                separated = self._separate(text, separator)
                if separated is None or (limit != 1 and overlaps_itself(separator)) or limit == -1:
                    return None
                return (separated.counts if limit is None else np.minimum(separated.counts, limit)) + 1
        return None

    def _separate(self, text: Expression, separator: str) -> Separated | None:
        column = self._column_of(text)
        if column.kind != STR or column.constant or not separator:
            return None
        key = id(text), separator
        if key not in self._separated:
            self._separated[key] = Separated(column.data, separator)
        return self._separated[key]

    @staticmethod
    def _partitioned(number: int, separated: Separated, separator: str) -> Column:
        if number == 0:
            return Column(STR, separated.part(0, 1))
        if number == 2:
            return Column(STR, separated.after())
        found = (separated.counts > 0).astype(np.int64)
        return Column(STR, pa.array(["", separator], pa.string()).take(pa.array(found)))

    def _word(self, text: Expression, number: int) -> Column | None:
        words = self._words_of(text)
        if words is None:
            return None
        texts, counts = words
        if int(counts.min()) < (number + 1 if number >= 0 else -number):
            raise FallBackToRows("an item that a list has not")
        ends = np.cumsum(counts)
        places = ends - counts + number if number >= 0 else ends + number
        return Column(STR, texts.take(pa.array(places)))

    def _words_of(self, text: Expression) -> tuple[Any, Array] | None:
        column = self._column_of(text)
        if column.kind != STR or column.constant:
            return None
        if id(text) not in self._words:
            self._words[id(text)] = split_by_spaces(column.data)
        return self._words[id(text)]


def _limit(most: list[Expression]) -> int | None:
    """Return how often a text is split at most; ``None``: always; -1: that is not known."""
    if not most:
        return None
    value = most[0].value if isinstance(most[0], Constant) else None
    if type(value) is not int or value == 0:
        return -1
    return None if value < 0 else value


__all__ = ["Splits"]

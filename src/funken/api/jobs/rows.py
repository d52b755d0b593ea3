"""The first records of a stream as a table of text, or of HTML in a notebook: what ``stream.show()`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from funken.types.columns import columns_of

_WIDEST = 40


class ShownRecords:
    """Records with their columns; ``str()`` is a table of text, and a notebook shows one of HTML.

    >>> print(ShownRecords([{"word": "to", "n": 2}, {"word": "be"}]))
    word  n
    ----  -
    to    2
    be
    """

    def __init__(self, records: Sequence[object]) -> None:
        rows = [columns_of(record) for record in records]
        self._names = list(dict.fromkeys(name for row in rows for name in row))
        self._rows = [[_text(row[name]) if name in row else "" for name in self._names] for row in rows]
        self._numbers = [all(_is_number(row[name]) for row in rows if name in row) for name in self._names]

    def __str__(self) -> str:
        if not self._names:
            return "no records"
        widths = [max(map(len, column)) for column in zip(self._names, *self._rows, strict=True)]
        lines = [self._names, ["-" * width for width in widths], *self._rows]
        return "\n".join(self._line(line, widths) for line in lines)

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        placed = (
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(cells, widths, self._numbers, strict=True)
        )
        return "  ".join(placed).rstrip()

    def _repr_html_(self) -> str:
        if not self._names:
            return "no records"
        head = "".join(f"<th>{escape(name)}</th>" for name in self._names)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."

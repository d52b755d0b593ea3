"""How values become the fields of delimited text, as Flink (Jackson) writes them; `csv_schema.py` makes lines of them."""

from __future__ import annotations

import base64
import datetime
import decimal
import importlib
import numbers
from collections.abc import Callable
from typing import Any

from funken.dataclass import dataclass
from funken.types.info import DecimalTypeInfo, Types
from funken.types.text import written


@dataclass(frozen=True)
class ValueTexts:
    """How the values of a column are written: what is between the elements of lists and rows, and what stands for ``None``.

    >>> import pyarrow as pa
    >>> prices = ValueTexts(delimiter=";", null="-").writer(pa.list_(pa.float64()), None, quoted=repr)
    >>> prices([1e10, 0.5, None]), prices(None)
    ("'1.0E10;0.5;-'", '-')
    """

    delimiter: str
    null: str

    def writer(self, kind: Any, digits: int | None, quoted: Callable[[str], str]) -> Callable[[Any], str]:
        """Return what writes a value of a type; numbers, booleans and nulls are never quoted."""
        arrow = importlib.import_module("pyarrow.types")
        null, other = self.null, self._other
        if arrow.is_string(kind):

            def text(value: Any) -> str:
                return quoted(value) if type(value) is str else null if value is None else other(value, quoted)

            return text
        if arrow.is_integer(kind):
            return lambda value: str(value) if type(value) is int else other(value, quoted)
        if arrow.is_floating(kind):
            single = arrow.is_float32(kind)
            return self._number(written(Types.FLOAT() if single else Types.DOUBLE()), quoted, not single)
        if arrow.is_decimal(kind) and digits is not None:
            of_text = rounded(digits)

            def number(value: Any) -> str:
                return str(of_text(value)) if isinstance(value, decimal.Decimal | int) else other(value, quoted)

            return number
        if arrow.is_list(kind) or arrow.is_struct(kind):
            within = [kind.field(number).type for number in range(kind.num_fields)]
            parts = [self.writer(each, None, str) for each in within]
            join = self.delimiter.join

            def joined(value: Any) -> str:
                if value is None:
                    return null
                values = value.values() if isinstance(value, dict) else value
                writers = parts if len(parts) != 1 else parts * len(values)
                return quoted(join([write(each) for write, each in zip(writers, values, strict=True)]))

            return joined
        return lambda value: other(value, quoted)

    def _number(self, show: Callable[[float], str], quoted: Callable[[str], str], short: bool) -> Callable[[Any], str]:
        def number(value: Any) -> str:
            if short and type(value) is float and (1e-3 <= value < 1e7 or -1e7 < value <= -1e-3):
                return repr(value)  # as Java's; the others take ten times as long
            real = isinstance(value, numbers.Real) and not isinstance(value, bool)
            return show(float(value)) if real else self._other(value, quoted)

        return number

    def _other(self, value: Any, quoted: Callable[[str], str]) -> str:
        """Write a value by what it is."""
        if value is None:
            return self.null
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, datetime.date | datetime.time):
            return quoted(value.isoformat())
        if isinstance(value, bytes | bytearray):
            return quoted(base64.b64encode(value).decode())
        if isinstance(value, list | tuple):
            return quoted(self.delimiter.join([self._other(each, str) for each in value]))
        if isinstance(value, numbers.Number):
            return str(value)
        return quoted(str(value))


def rounded(digits: int) -> Callable[[Any], decimal.Decimal]:
    """Return what makes decimals with so many digits after the point, and rounds half up.

    >>> rounded(0)("1.5"), rounded(2)(3)
    (Decimal('2'), Decimal('3.00'))
    """
    step = decimal.Decimal(1).scaleb(-digits)
    context = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
    return lambda value: decimal.Decimal(value).quantize(step, context=context)


def digits_of(kind: Any, declared: Any) -> int | None:
    """Return how many digits a column of decimals has after the point, if that is declared."""
    if isinstance(declared, DecimalTypeInfo):
        return declared.scale
    of_arrow = declared is None and importlib.import_module("pyarrow.types").is_decimal(kind)
    return kind.scale if of_arrow and (kind.precision, kind.scale) != (38, 18) else None


__all__ = ["ValueTexts", "digits_of", "rounded"]

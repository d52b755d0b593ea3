"""Functions of numbers, for a whole block at once, where it is certain that Python's result is the same to the bit.

A form gets the columns of the arguments, of which the first that is no constant is a number. It returns ``None`` where the
result may be another; then the function itself is called for each value. Functions whose last bit depends on the library that
computes them (``sin``, ``log``, ``pow``) have none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from funken.columnar.kernels.columns import Array, Column, pa, pc, rounded
from funken.expr.types import BOOL, FLOAT, INT, LOWEST, STR, Atomic

Form = Callable[..., Column | None]
_EXACT = 2.0**53
_MOST_DIGITS = 9
_CERTAIN = 2.0**-51
"""A scaled float is off by less than this part of itself, twice over."""
_FIXED = re.compile(r"\.([0-9])f")
_WHOLE = re.compile(r"([<>]?)(0?)([0-9]{0,3})d?")
_PLAIN_LOW, _PLAIN_HIGH = 1e-4, 1e10
"""Floats between these are written without an exponent, by Python and by Arrow."""


def _whole(how: Callable[[Array], Array]) -> Form:
    def whole(number: Column, *digits: Column) -> Column | None:
        if digits or number.kind != FLOAT or not bool((np.abs(number.data) < _EXACT).all()):
            return None
        return Column(INT, how(number.data).astype(np.int64))

    return whole


def _of_floats(how: Callable[[Array], Array], kind: Atomic = FLOAT) -> Form:
    def form(number: Column) -> Column | None:
        return Column(kind, how(number.data)) if number.kind == FLOAT else None

    return form


def _floats(number: Column) -> Any:
    """Return the values as floats: an array, or one; ``None`` where an int may have no float."""
    if number.constant:
        return float(number.data) if abs(number.data) <= _EXACT else None
    if number.kind == FLOAT:
        return number.data
    low, high = number.bounds()
    return number.data.astype(np.float64) if low >= -_EXACT and high <= _EXACT else None


def root(number: Column) -> Column | None:
    """Return ``math.sqrt(number)``."""
    floats = _floats(number)
    return None if floats is None or bool((floats < 0).any()) else Column(FLOAT, np.sqrt(floats))


def _scaled(factor: float) -> Form:
    def form(number: Column) -> Column | None:
        floats = _floats(number)
        return None if floats is None else Column(FLOAT, floats * factor)

    return form


def _divided(how: Callable[[Any, Any], Array]) -> Form:
    """Return a form of ``%`` or ``//`` of floats: C's remainder with Python's correction, as NumPy has it."""

    def form(left: Column, right: Column) -> Column | None:
        one, other = _floats(left), _floats(right)
        if (
            one is None
            or other is None
            or not bool(np.isfinite(one).all() and np.isfinite(other).all() and np.all(other))
        ):
            return None
        return Column(FLOAT, how(one, other))

    return form


def common_divisor(one: Column, other: Column) -> Column | None:
    """Return ``math.gcd(one, other)``."""
    if LOWEST in (one.bounds()[0], other.bounds()[0]):
        return None
    return Column(INT, np.gcd(one.data, other.data))


def bit_length(number: Column) -> Column | None:
    """Return ``number.bit_length()``."""
    low, high = number.bounds()
    if low <= -_EXACT or high >= _EXACT:
        return None
    return Column(INT, np.frexp(number.data.astype(np.float64))[1].astype(np.int64), False, 0, 53)


# ---- decimals


def _shifted(numbers: Array, digits: int) -> tuple[Array, Array]:
    """Return floats times a power of ten as whole numbers, and the places of those that Python surely rounds to.

    Python rounds the exact value of the float. The product is off by half of its last bit, so what it rounds to is another
    number only if it is that near to the middle between two.
    """
    scaled = numbers * 10.0**digits
    whole = np.rint(scaled)
    size = np.abs(scaled)
    certain = (0.5 - np.abs(scaled - whole) > size * _CERTAIN) & (size < _EXACT / 4)
    return whole, certain


def _few(certain: Array) -> bool:
    return int(np.count_nonzero(certain)) * 2 >= len(certain)


def rounded_to(number: Column, *digits: Column) -> Column | None:
    """Return ``round(number, digits)``; without digits, the nearest int."""
    if not digits:
        return _NEAREST(number)
    count = digits[0].data if digits[0].constant else None
    if number.kind != FLOAT or type(count) is not int or not 0 <= count <= _MOST_DIGITS:
        return None
    whole, certain = _shifted(number.data, count)
    if not _few(certain):
        return None
    found = whole / 10.0**count
    for place in np.flatnonzero(~certain).tolist():
        found[place] = round(float(number.data[place]), count)
    return Column(FLOAT, found)


def formatted(number: Column, spec: Column) -> Column | None:
    """Return ``format(number, spec)``: floats with digits after the point, ints filled up to a width."""
    told = spec.data if spec.constant else None
    if not isinstance(told, str):
        return None
    if number.kind == FLOAT:
        fixed = _FIXED.fullmatch(told)
        return _fixed(number.data, int(fixed[1])) if fixed else written(number) if not told else None
    whole = _WHOLE.fullmatch(told)
    return _filled(number, *whole.groups()) if whole and number.kind == INT else None


def _fixed(numbers: Array, digits: int) -> Column | None:
    whole, certain = _shifted(numbers, digits)
    if not _few(certain):
        return None
    whole[~certain] = 0
    texts = pa.array(np.abs(whole).astype(np.int64)).cast(pa.string())
    if digits:
        texts = pc.utf8_lpad(texts, width=digits + 1, padding="0")
        texts = pc.binary_replace_slice(texts, start=-digits, stop=-digits, replacement=".")
    negative = np.signbit(numbers)
    if negative.any():
        texts = pc.if_else(pa.array(negative), pc.binary_join_element_wise("-", texts, ""), texts)
    if not certain.all():
        exact = pa.array([f"{each:.{digits}f}" for each in numbers[~certain].tolist()], pa.string())
        texts = pc.replace_with_mask(texts, pa.array(~certain), exact)
    return Column(STR, texts)


def _filled(number: Column, align: str, zero: str, width: str) -> Column | None:
    """Return ints with zeros or spaces before them, or spaces after them."""
    if zero and (align or number.bounds()[0] < 0):
        return None
    texts = pa.array(number.data).cast(pa.string())
    if width:
        pad = pc.utf8_rpad if align == "<" else pc.utf8_lpad
        texts = pad(texts, width=int(width), padding="0" if zero else " ")
    return Column(STR, texts)


def written(number: Column) -> Column | None:
    """Return ``str(number)`` of floats: the fewest digits that are this float, in Arrow's words."""
    if number.kind != FLOAT:
        return None
    size = np.abs(number.data)
    if not bool((((size >= _PLAIN_LOW) & (size < _PLAIN_HIGH)) | (size == 0)).all()):
        return None
    texts = pa.array(number.data).cast(pa.string())
    whole = number.data == np.rint(number.data)
    if whole.any():
        texts = pc.if_else(pa.array(whole), pc.binary_join_element_wise(texts, ".0", ""), texts)
    return Column(STR, texts)


def _narrowed(bits: int) -> Form:
    def form(number: Column) -> Column | None:
        from funken.columnar.kernels.columns import narrowed  # noqa: PLC0415 - few programs need it

        return narrowed(number, bits) if number.kind == INT and len(number.data) else None

    return form


def is_whole(number: Column) -> Column:
    """Return True if floats are whole numbers."""
    return Column(BOOL, np.isfinite(number.data) & (np.trunc(number.data) == number.data))


def as_float_32(number: Column) -> Column:
    """Return the nearest floats of 32 bits."""
    return Column(FLOAT, rounded(number.data))


_NEAREST = _whole(np.rint)
floor, ceiling, truncated = _whole(np.floor), _whole(np.ceil), _whole(np.trunc)
absolute = _of_floats(np.abs)
is_nan, is_infinite, is_finite = _of_floats(np.isnan, BOOL), _of_floats(np.isinf, BOOL), _of_floats(np.isfinite, BOOL)
degrees, radians = _scaled(180.0 / math.pi), _scaled(math.pi / 180.0)
remainder, quotient = _divided(np.remainder), _divided(np.floor_divide)
as_int_8, as_int_16, as_int_32 = _narrowed(8), _narrowed(16), _narrowed(32)


# ---- Tests of ``str(number)`` without making the text, by arithmetic on the number.
#
# Every function takes a column of ints and returns a mask, or one bool for all records, and is exact for every
# 64-bit number: ``str`` has no leading zeros, one ``-`` before a negative number, and no other letters. Bounds of
# the column decide what they can: the upper digits of a block of neighbours are all alike.


Mask = Array | bool
"""A mask, or one bool for all records."""

_LONGEST = 19
"""Digits of the greatest number."""


def is_decimal(text: str) -> bool:
    """Return True if a text is ``str(number)`` of some 64-bit number.

    >>> [is_decimal(text) for text in ("0", "-12", "01", "-0", "", "9223372036854775808")]
    [True, True, False, False, False, False]
    """
    digits = text.removeprefix("-")
    return is_digits(digits) and len(digits) <= _LONGEST and str(int(text)) == text and -(2**63) <= int(text) < 2**63


def is_digits(text: str) -> bool:
    """Return True if a text is not empty, and all of it ASCII digits."""
    return text.isascii() and text.isdigit()


def equals(column: Column, text: str) -> Mask:
    """Return a mask of ``str(number) == text``."""
    return _between(column, int(text), int(text)) if is_decimal(text) else False


def starts(column: Column, text: str) -> Mask:
    """Return a mask of ``str(number).startswith(text)``; the text is not empty."""
    if text == "-":
        return _between(column, -(2**63), -1)
    if text == "0":
        return equals(column, text)
    digits = text.removeprefix("-")
    if not is_digits(digits) or digits[0] == "0":
        return False
    found: Mask = False
    for more in range(_LONGEST - len(digits) + 1):
        least = int(digits) * 10**more
        most = least + 10**more - 1
        found = either(found, _between(column, *((-most, -least) if text[0] == "-" else (least, most))))
    return found


def ends(column: Column, text: str) -> Mask:
    """Return a mask of ``str(number).endswith(text)``; the text is not empty."""
    if not is_digits(text):
        return equals(column, text)  # a sign has nothing before it
    if len(text) >= _LONGEST:
        return either(equals(column, text), equals(column, "-" + text))
    low, high = column.bounds()
    modulus, rest = 10 ** len(text), int(text)
    rests = _rests(column, modulus)
    # rests are of a floor division: of a negative number, what is missing to the multiple above it in size
    negative = -rest % modulus
    found: Mask
    if low >= 0 or rest == negative:
        found = rests == rest
    elif high < 0:
        found = rests == negative
    else:
        found = np.where(column.data < 0, rests == negative, rests == rest)
    if text[0] == "0" and len(text) > 1:  # the number that is the rest itself has no zeros before it
        found = both(found, opposite(either(_between(column, rest, rest), _between(column, -rest, -rest))))
    return found


def has(column: Column, text: str) -> Mask:
    """Return a mask of ``text in str(number)``; the text is not empty."""
    if not is_digits(text):
        return starts(column, text)
    if len(text) > _LONGEST:
        return False
    low, high = column.bounds()
    if low < 0 <= high:
        sizes, least, most = _sizes(column.data), 0, max(-low, high)
    elif low < 0:
        sizes, least, most = _sizes(column.data), -high, -low
    else:
        sizes, least, most = column.data, low, high
    sizes = sizes.astype(_unsigned(most))
    # A modulus above all sizes leaves them as they are, and need not fit into their type.
    modulus, wanted = 10 ** len(text), int(text)
    found: Mask = False
    first = True
    while least != most:
        if most >= wanted:
            kind = sizes.dtype.type
            rests = sizes - sizes // kind(modulus) * kind(modulus) if most >= modulus else sizes
            here: Mask = rests == kind(wanted)
            if text[0] == "0" and not (first and len(text) == 1):
                here = both(here, sizes != kind(wanted))  # these have no zero there, but nothing
            found = either(found, here)
        sizes, least, most, first = sizes // sizes.dtype.type(10), least // 10, most // 10, False
    return either(found, (most > 0 or first) and text in str(most))


def lengths(column: Column) -> Array | int:
    """Return ``len(str(number))``, one number if they are alike."""
    low, high = column.bounds()
    # From the lowest number on, the length changes by one at each of these.
    steps = [(0, -1), *((10**more, 1) for more in range(1, _LONGEST)), *((1 - 10**more, -1) for more in range(1, 20))]
    steps = [(at, change) for at, change in steps if low < at <= high]
    if not steps:
        return len(str(low))
    found = np.full(len(column.data), len(str(low)), np.int64)
    for at, change in steps:
        found += (column.data >= at) * np.int64(change)
    return found


def _between(column: Column, least: int, most: int) -> Mask:
    low, high = column.bounds()
    if least > high or most < low:
        return False
    if least == most:
        return True if low == high else column.data == least
    above: Mask = True if least <= low else column.data >= least
    return both(above, True if most >= high else column.data <= most)


def _rests(column: Column, modulus: int) -> Array:
    """Return the numbers modulo a power of ten, in a type that may be narrow."""
    low, high = column.bounds()
    base = low - low % modulus
    # Hot: 16-bit numbers are divided eight times as fast as 64-bit ones (0.5 and 3.3 ns with the multiplication), and
    # a block of neighbours is a narrow range.
    if high - base >= 2**32 or base < -(2**63):
        return column.data - np.floor_divide(column.data, modulus) * modulus
    numbers = (column.data - base).astype(_unsigned(high - base))
    if high - base < modulus:
        return numbers
    kind = numbers.dtype.type
    return numbers - numbers // kind(modulus) * kind(modulus)


def _unsigned(most: int) -> type:
    return np.uint16 if most < 2**16 else np.uint32 if most < 2**32 else np.uint64


def _sizes(numbers: Array) -> Array:
    """Return numbers without their sign, as unsigned ones: the lowest has no positive counterpart."""
    unsigned = numbers.astype(np.uint64)
    return np.where(numbers < 0, ~unsigned + np.uint64(1), unsigned)


def both(one: Mask, other: Mask) -> Mask:
    """Return the conjunction of two masks."""
    if one is True or other is False:
        return other
    return one if other is True or one is False else one & other


def either(one: Mask, other: Mask) -> Mask:
    """Return the disjunction of two masks."""
    if one is False or other is True:
        return other
    return one if other is False or one is True else one | other


def opposite(mask: Mask) -> Mask:
    """Return the negation of a mask."""
    return not mask if isinstance(mask, bool) else ~mask

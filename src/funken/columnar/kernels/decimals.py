"""Tests of ``str(number)`` without making the text, by arithmetic on the number.

Every function takes a column of ints and returns a mask, or one bool for all records, and is exact for every 64-bit
number: ``str`` has no leading zeros, one ``-`` before a negative number, and no other letters. Bounds of the column decide
what they can: the upper digits of a block of neighbours are all alike.
"""

from __future__ import annotations

import numpy as np

from funken.columnar.kernels.columns import Array, Column

Mask = Array | bool
"""A mask, or one bool for all records."""

_LONGEST = 19
"""Digits of the greatest number."""


def is_decimal(text: str) -> bool:
    """Whether a text is ``str(number)`` of some 64-bit number.

    >>> [is_decimal(text) for text in ("0", "-12", "01", "-0", "", "9223372036854775808")]
    [True, True, False, False, False, False]
    """
    digits = text.removeprefix("-")
    return is_digits(digits) and len(digits) <= _LONGEST and str(int(text)) == text and -(2**63) <= int(text) < 2**63


def is_digits(text: str) -> bool:
    """Whether a text is not empty, and all of it ASCII digits."""
    return text.isascii() and text.isdigit()


def equals(column: Column, text: str) -> Mask:
    """Return where ``str(number) == text``."""
    return _between(column, int(text), int(text)) if is_decimal(text) else False


def starts(column: Column, text: str) -> Mask:
    """Return where ``str(number).startswith(text)``; the text is not empty."""
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
    """Return where ``str(number).endswith(text)``; the text is not empty."""
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
    """Return where ``text in str(number)``; the text is not empty."""
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
    """Return where two masks are true."""
    if one is True or other is False:
        return other
    return one if other is True or one is False else one & other


def either(one: Mask, other: Mask) -> Mask:
    """Return where one of two masks is true."""
    if one is False or other is True:
        return other
    return one if other is False or one is True else one | other


def opposite(mask: Mask) -> Mask:
    """Return where a mask is false."""
    return not mask if isinstance(mask, bool) else ~mask


__all__ = [
    "Mask",
    "both",
    "either",
    "ends",
    "equals",
    "has",
    "is_decimal",
    "is_digits",
    "lengths",
    "opposite",
    "starts",
]

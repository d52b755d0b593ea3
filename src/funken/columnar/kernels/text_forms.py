"""Functions of text, for a whole block at once: most of them Arrow's, where it is certain that Python's result is the same.

A form gets the columns of the arguments, of which the first that is no constant is text. It returns ``None`` where the result
may be another, mostly for letters beyond ASCII; then the function itself is called for each value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funken.columnar.kernels import text as cuts
from funken.columnar.kernels.columns import Array, Column, FallBackToRows, mask_of_bits, pa, pc
from funken.columnar.kernels.text import concatenated, is_ascii, parts_of
from funken.expr.types import BOOL, FLOAT, INT, STR, Atomic

Form = Callable[..., Column | None]
_SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
"""The white space of ``strip`` in ASCII."""
_SEPARATORS = (0x1C, 0x1F)
"""Of these, the characters that are white space for Python and not for C."""
_WIDEST = 1000
_DIGITS = frozenset(b"0123456789-")
_DECIMALS = _DIGITS | frozenset(b".eE+")


def _ascii(how: Callable[[Any], Any], kind: Atomic = STR) -> Form:
    """Return a form of one text, for letters of ASCII."""

    def form(text: Column) -> Column | None:
        if text.constant or not is_ascii(text.data):
            return None
        found = how(text.data)
        return Column(kind, found if kind == STR else mask_of_bits(found))

    return form


def is_space(text: Column) -> Column | None:
    """Return ``text.isspace()``."""
    offsets, content = parts_of(text.data)
    part = content[offsets[0] : offsets[-1]]
    if len(part) and (int(part.max()) >= 128 or bool(((part >= _SEPARATORS[0]) & (part <= _SEPARATORS[1])).any())):
        return None
    return Column(BOOL, mask_of_bits(pc.ascii_is_space(text.data)))


def is_ascii_text(text: Column) -> Column | None:
    """Return ``text.isascii()``."""
    return Column(BOOL, mask_of_bits(pc.string_is_ascii(text.data)))


def _stripped(trim: Callable[..., Any]) -> Form:
    def form(text: Column, *characters: Column) -> Column | None:
        if text.constant or not is_ascii(text.data):
            return None
        if not characters:
            return Column(STR, trim(text.data, characters=_SPACES))
        (wanted,) = characters
        if not (wanted.constant and wanted.data and wanted.data.isascii()):
            return None
        return Column(STR, trim(text.data, characters=wanted.data))

    return form


def replace(text: Column, old: Column, new: Column, *most: Column) -> Column | None:
    """Return ``text.replace(old, new)``."""
    if most or text.constant or not (old.constant and new.constant and old.data):
        return None
    return Column(STR, pc.replace_substring(text.data, pattern=old.data, replacement=new.data))


def _searches(text: Column, part: Column, start: tuple[Column, ...]) -> bool:
    return not start and not text.constant and bool(part.constant and part.data)


def count(text: Column, part: Column, *start: Column) -> Column | None:
    """Return ``text.count(part)``."""
    if not _searches(text, part, start):
        return None
    return Column(INT, _integers(pc.count_substring(text.data, pattern=part.data)))


def find(text: Column, part: Column, *start: Column) -> Column | None:
    """Return ``text.find(part)``."""
    if not _searches(text, part, start) or not is_ascii(text.data):
        return None
    return Column(INT, _integers(pc.find_substring(text.data, pattern=part.data)))


def rfind(text: Column, part: Column, *start: Column) -> Column | None:
    """Return ``text.rfind(part)``."""
    if not _searches(text, part, start) or not is_ascii(text.data):
        return None
    return Column(INT, cuts.Separated(text.data, part.data).last())


def _required(find: Form) -> Form:
    def form(*given: Column) -> Column | None:
        found = find(*given)
        if found is not None and bool((found.data < 0).any()):
            raise FallBackToRows("a text that is not in another")
        return found

    return form


def _integers(found: Any) -> Array:
    return found.to_numpy(zero_copy_only=False).astype(np.int64)


def _padded(pad: Callable[..., Any]) -> Form:
    def form(text: Column, width: Column, *fill: Column) -> Column | None:
        letter = fill[0].data if fill else " "
        if text.constant or not _is_width(width) or (fill and not (fill[0].constant and len(letter) == 1)):
            return None
        return Column(STR, pad(text.data, width=width.data, padding=letter))

    return form


def _is_width(width: Column) -> bool:
    return width.constant and type(width.data) is int and 0 <= width.data <= _WIDEST


def zfill(text: Column, width: Column) -> Column | None:
    """Return ``text.zfill(width)``."""
    if text.constant or not _is_width(width) or _begins_with_a_sign(text.data):
        return None
    return Column(STR, pc.utf8_lpad(text.data, width=width.data, padding="0"))


def _begins_with_a_sign(array: Any) -> bool:
    offsets, content = parts_of(array)
    begins = offsets[:-1][np.diff(offsets) > 0]
    letters = content[begins]
    return bool(((letters == ord("-")) | (letters == ord("+"))).any())


def formatted(text: Column, spec: Column) -> Column | None:
    """Return ``format(text, spec)`` for specs that fill up with spaces."""
    told = spec.data if spec.constant else None
    if not isinstance(told, str):
        return None
    pads = {"<": pc.utf8_rpad, ">": pc.utf8_lpad}
    digits = told[1:] if told[:1] in pads else told
    if not digits:
        return text if not told else None
    if not (digits.isascii() and digits.isdigit()) or digits[0] == "0" or int(digits) > _WIDEST:
        return None
    return Column(STR, pads.get(told[0], pc.utf8_rpad)(text.data, width=int(digits), padding=" "))


def _parsed(kind: Atomic, letters: frozenset[int]) -> Form:
    """Return a form of ``int`` or ``float``: for texts that Arrow and Python read alike."""
    allowed = np.zeros(256, np.bool_)
    allowed[list(letters)] = True

    def form(text: Column, *base: Column) -> Column | None:
        if base or text.constant:
            return None
        offsets, content = parts_of(text.data)
        if not bool(allowed[content[offsets[0] : offsets[-1]]].all()):
            return None
        try:
            found = pc.cast(text.data, pa.int64() if kind == INT else pa.float64())
        except pa.ArrowInvalid:  # perhaps it has more digits than 64 bits hold
            return None
        return Column(kind, found.to_numpy(zero_copy_only=False))

    return form


def _in_json(escaped: Array) -> Form:
    """Return a form of texts in JSON, of which no letter is one that has to be escaped."""

    def form(text: Column) -> Column | None:
        offsets, content = parts_of(text.data)
        if bool(escaped[content[offsets[0] : offsets[-1]]].any()):
            return None
        quote = Column(STR, '"', True)
        return concatenated([quote, text, quote], len(text.data))

    return form


_CODES = np.arange(256)
_ESCAPED = (_CODES < 0x20) | (ord('"') == _CODES) | (ord("\\") == _CODES)

lower, upper = _ascii(pc.ascii_lower), _ascii(pc.ascii_upper)
title, capitalize, swapcase = _ascii(pc.ascii_title), _ascii(pc.ascii_capitalize), _ascii(pc.ascii_swapcase)
is_decimal, is_title = _ascii(pc.ascii_is_decimal, BOOL), _ascii(pc.ascii_is_title, BOOL)
is_alpha, is_alnum = _ascii(pc.ascii_is_alpha, BOOL), _ascii(pc.ascii_is_alnum, BOOL)
is_upper, is_lower = _ascii(pc.ascii_is_upper, BOOL), _ascii(pc.ascii_is_lower, BOOL)
strip, lstrip, rstrip = _stripped(pc.ascii_trim), _stripped(pc.ascii_ltrim), _stripped(pc.ascii_rtrim)
index, rindex = _required(find), _required(rfind)
ljust, rjust = _padded(pc.utf8_rpad), _padded(pc.utf8_lpad)
integers, floats = _parsed(INT, _DIGITS), _parsed(FLOAT, _DECIMALS)
in_json, in_ascii_json = _in_json(_ESCAPED), _in_json(_ESCAPED | (_CODES >= 0x7F))

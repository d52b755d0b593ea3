"""Texts, bytes, regular expressions and hashes."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import operator
import re
import zlib
from collections.abc import Callable
from typing import Any
from urllib import parse

from funken.dataclass import dataclass
from funken.expr.python.objects import BYTES, HASH, MATCH, PATTERN, TEXTS
from funken.expr.python.operation import OperationRule, Signatures
from funken.expr.types import BOOL, INT, STR, Tuple, optional

# ---- Values as ``json.dumps`` writes them, one by one.


@dataclass(frozen=True)
class JsonOptions:
    """How ``json.dumps`` writes: what is between items, what behind a key, and its options."""

    item: str = ", "
    key: str = ": "
    ensure_ascii: bool = True
    sort_keys: bool = False
    default_str: bool = False


@functools.lru_cache(maxsize=16)
def _encoder(options: JsonOptions) -> json.JSONEncoder:
    return json.JSONEncoder(
        separators=(options.item, options.key),
        ensure_ascii=options.ensure_ascii,
        sort_keys=options.sort_keys,
        default=str if options.default_str else None,
    )


def value_as_json(value: Any, options: JsonOptions) -> str:
    """Return what ``json.dumps`` does.

    >>> value_as_json([1, None, "e"], JsonOptions(item=","))
    '[1,null,"e"]'
    """
    return _encoder(options).encode(value)


_TEXT: Signatures = {(STR,): STR}
_TEST: Signatures = {(STR,): BOOL}
_OF_TWO: Signatures = {(STR, STR): STR}
_STARTS: Signatures = {(STR, STR): BOOL}
_SEARCH: Signatures = {(STR, STR): INT, (STR, STR, INT): INT}
_PADDED: Signatures = {(STR, INT): STR, (STR, INT, STR): STR}
_SPLIT: Signatures = {(STR,): TEXTS, (STR, STR): TEXTS, (STR, STR, INT): TEXTS}
_PARTS = {1: ("a", "é", "ab", ",", "")}
_WIDTHS = {1: (0, 3, 6, -1), 2: ("0", "é")}
_CODES = {1: ("utf-8", "ascii", "latin-1")}
_PATTERNS = {0: (re.compile("a"), re.compile("[ab]+"), re.compile(r"(a)|b"), re.compile(r"\d*"))}


def _text(name: str, signatures: Signatures, kernel: str = "", **more: Any) -> OperationRule:
    return OperationRule(f"str.{name}", getattr(str, name), signatures, texts=kernel, group="text", **more)


def _cased(name: str, kernel: str) -> OperationRule:
    return _text(name, _TEXT, f"kernels.text_forms.{kernel}")


def _tested(name: str, kernel: str) -> OperationRule:
    return _text(name, _TEST, f"kernels.text_forms.{kernel}")


def _part(place: int) -> OperationRule:
    def function(text: str, part: str) -> str:
        return text.partition(part)[place]

    return OperationRule(f"str.partition.{place}", function, _OF_TWO)


def _bytes(name: str, function: Callable[..., Any], signatures: Signatures, **more: Any) -> OperationRule:
    return OperationRule(name, function, signatures, group="bytes and hashes", **more)


def _hashed(name: str, function: Callable[..., Any], signatures: Signatures) -> OperationRule:
    return _bytes(name, function, signatures, target=function)


def _json_float(number: float) -> str:
    return repr(number) if math.isfinite(number) else json.dumps(number)


OPERATIONS = [
    _cased("lower", "lower"),
    _cased("casefold", "lower"),
    _cased("upper", "upper"),
    _cased("title", "title"),
    _cased("capitalize", "capitalize"),
    _cased("swapcase", "swapcase"),
    _tested("isdigit", "is_decimal"),
    _tested("isdecimal", "is_decimal"),
    _tested("isnumeric", "is_decimal"),
    _tested("isalpha", "is_alpha"),
    _tested("isalnum", "is_alnum"),
    _tested("isupper", "is_upper"),
    _tested("islower", "is_lower"),
    _tested("istitle", "is_title"),
    _tested("isspace", "is_space"),
    *(_text(name, _TEST) for name in ("isprintable", "isidentifier")),
    _text("expandtabs", {(STR,): STR, (STR, INT): STR}, constants=_WIDTHS),
    OperationRule("ascii", ascii, _TEXT, builtin=True, group="text"),
    *(
        OperationRule(f"urllib.parse.{each.__name__}", each, _TEXT, target=each, group="text")
        for each in (parse.quote, parse.quote_plus, parse.unquote, parse.unquote_plus)
    ),
    _tested("isascii", "is_ascii_text"),
    *(
        _text(name, {**_TEXT, **_OF_TWO}, f"kernels.text_forms.{name}", constants=_PARTS)
        for name in ("strip", "lstrip", "rstrip")
    ),
    _text("removeprefix", _OF_TWO, "kernels.cuts.without_prefix", constants=_PARTS),
    _text("removesuffix", _OF_TWO, "kernels.cuts.without_suffix", constants=_PARTS),
    *(
        _text(name, _SEARCH, f"kernels.text_forms.{name}", constants={**_PARTS, 2: (0, 1, -2)})
        for name in ("find", "rfind", "index", "rindex", "count")
    ),
    _text("startswith", _STARTS, native=_STARTS, native_with=1, constants=_PARTS),
    _text("endswith", _STARTS, native=_STARTS, native_with=1, constants=_PARTS),
    *(_text(name, _PADDED, f"kernels.text_forms.{name}", constants=_WIDTHS) for name in ("ljust", "rjust")),
    _text("center", _PADDED, constants=_WIDTHS),
    _text("zfill", {(STR, INT): STR}, "kernels.text_forms.zfill", constants=_WIDTHS),
    _text(
        "replace", {(STR, STR, STR): STR, (STR, STR, STR, INT): STR}, "kernels.text_forms.replace",
        constants={**_PARTS, 2: ("", "aa", "é"), 3: (0, 1, -1)},
    ),
    *(_text(name, _SPLIT, constants={**_PARTS, 2: (0, 1, -1)}) for name in ("split", "rsplit")),
    _text("partition", {(STR, STR): Tuple((STR, STR, STR))}, constants=_PARTS),
    *map(_part, range(3)),
    _text("splitlines", {(STR,): TEXTS}),
    _text("join", {(STR, TEXTS): STR}),
    _text("encode", {(STR,): BYTES, (STR, STR): BYTES}, constants=_CODES),
    _bytes("bytes.decode", bytes.decode, {(BYTES,): STR, (BYTES, STR): STR}, constants=_CODES),
    _bytes("bytes.hex", bytes.hex, {(BYTES,): STR}),
    *(
        _hashed(f"hashlib.{name}", getattr(hashlib, name), {(BYTES,): HASH})
        for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
    ),
    _bytes("hash.hexdigest", operator.methodcaller("hexdigest"), {(HASH,): STR}),
    _bytes("hash.digest", operator.methodcaller("digest"), {(HASH,): BYTES}),
    _hashed("zlib.crc32", zlib.crc32, {(BYTES,): INT}),
    _hashed("zlib.adler32", zlib.adler32, {(BYTES,): INT}),
    _hashed("base64.b64encode", base64.b64encode, {(BYTES,): BYTES}),
    _hashed("base64.b64decode", base64.b64decode, {(BYTES,): BYTES, (STR,): BYTES}),
    *(
        OperationRule(
            name, getattr(re.Pattern, name), {(PATTERN, STR): optional(MATCH)}, target=getattr(re, name), binds=0,
            written=f"{{0}}.{name}({{1}})", group="regular expressions", constants=_PATTERNS,
        )
        for name in ("search", "match", "fullmatch")
    ),
    OperationRule(
        "sub", re.Pattern.sub, {(PATTERN, STR, STR): STR}, target=re.sub, binds=0, written="{0}.sub({1}, {2})",
        group="regular expressions", constants={**_PATTERNS, 1: ("", "-", r"<\g<0>>")},
    ),
    OperationRule("json text", json.encoder.encode_basestring, _TEXT, texts="kernels.text_forms.in_json"),
    OperationRule("json ascii", json.encoder.encode_basestring_ascii, _TEXT, texts="kernels.text_forms.in_ascii_json"),
    OperationRule("json float", _json_float, numbers="kernels.numbers.written"),
    OperationRule("json value", value_as_json),
]  # fmt: skip


__all__ = ["OPERATIONS", "JsonOptions", "value_as_json"]

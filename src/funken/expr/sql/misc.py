"""Hashes, URLs, addresses, bitmaps, and values of the session."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote_plus, unquote_to_bytes

from funken.expr.ir import Call
from funken.expr.rules import Determinism, EvaluationError, FunctionRule
from funken.expr.sql.calls import bound, function
from funken.expr.sql.texts import bitmap_text
from funken.expr.sql.types import BooleanType, DoubleType, FloatType, IntegralType, is_text
from funken.expr.sql.values import wrap

# ---- Bitmaps as runs of integers, ``((first, last), ...)``: their algebra, and the standard bytes of roaring
# bitmaps.


Runs = tuple[tuple[int, int], ...]
FULL = (1 << 32) - 1


def runs_of(numbers: Iterable[int]) -> Runs:
    """Return the runs of unsigned numbers.

    >>> runs_of([3, 1, 2, 7])
    ((1, 3), (7, 7))
    """
    return union([(number, number) for number in numbers])


def union(runs: Iterable[tuple[int, int]]) -> Runs:
    """Return the runs of numbers in any of these."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            if last > found[-1][1]:
                found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)


def intersection(one: Runs, other: Runs) -> Runs:
    """Return the runs of numbers in both."""
    found = []
    at = place = 0
    while at < len(one) and place < len(other):
        first, last = max(one[at][0], other[place][0]), min(one[at][1], other[place][1])
        if first <= last:
            found.append((first, last))
        if one[at][1] < other[place][1]:
            at += 1
        else:
            place += 1
    return tuple(found)


def complement(runs: Runs) -> Runs:
    """Return the runs of all 32-bit numbers that are in none."""
    found, start = [], 0
    for first, last in runs:
        if start < first:
            found.append((start, first - 1))
        start = last + 1
    if start <= FULL:
        found.append((start, FULL))
    return tuple(found)


def difference(one: Runs, other: Runs) -> Runs:
    """Return the runs of numbers in the first only."""
    return intersection(one, complement(other))


def symmetric(one: Runs, other: Runs) -> Runs:
    """Return the runs of numbers in exactly one."""
    return union([*difference(one, other), *difference(other, one)])


def size(runs: Runs) -> int:
    """Return the number of numbers."""
    return sum(last - first + 1 for first, last in runs)


def contains(runs: Runs, number: int) -> bool:
    """Return True if a number is in the runs."""
    return any(first <= number <= last for first, last in runs)


_COOKIE, _COOKIE_RUNS = 12346, 12347


def _containers(runs: Runs) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for first, last in runs:
        for high in range(first >> 16, (last >> 16) + 1):
            low = max(first, high << 16) & 0xFFFF
            found.setdefault(high, []).append((low, min(last, (high << 16) | 0xFFFF) & 0xFFFF))
    return found


def _body(runs: list[tuple[int, int]], count: int) -> bytes:
    if count <= 4096:
        return struct.pack(f"<{count}H", *(number for first, last in runs for number in range(first, last + 1)))
    bits = 0
    for first, last in runs:
        bits |= ((1 << (last - first + 1)) - 1) << first
    return bits.to_bytes(8192, "little")


def to_bytes(runs: Runs) -> bytes:
    """Return the bytes of the RoaringBitmap format specification; containers are runs where that is smaller."""
    containers = _containers(runs)
    counts = {high: sum(last - first + 1 for first, last in parts) for high, parts in containers.items()}
    as_runs = {
        high: 2 + 4 * len(parts) < min(2 * counts[high], 8192)
        and 2 + 4 * len(parts) < (8192 if counts[high] > 4096 else 2 * counts[high])
        for high, parts in containers.items()
    }
    many = len(containers)
    if any(as_runs.values()):
        flags = bytearray((many + 7) // 8)
        for at, high in enumerate(containers):
            flags[at // 8] |= as_runs[high] << (at % 8)
        head = struct.pack("<I", _COOKIE_RUNS | (many - 1) << 16) + bytes(flags)
        offsets = many >= 4
    else:
        head, offsets = struct.pack("<II", _COOKIE, many), True
    head += b"".join(struct.pack("<HH", high, counts[high] - 1) for high in containers)
    bodies = [
        struct.pack("<H", len(parts)) + b"".join(struct.pack("<HH", first, last - first) for first, last in parts)
        if as_runs[high]
        else _body(parts, counts[high])
        for high, parts in containers.items()
    ]
    if offsets:
        place = len(head) + 4 * many
        for body in bodies:
            head += struct.pack("<I", place)
            place += len(body)
    return head + b"".join(bodies)


def from_bytes(data: bytes) -> Runs:
    """Return the runs of a roaring bitmap's bytes; others raise ``ValueError``."""
    try:
        return _read(data)
    except (struct.error, IndexError):
        raise ValueError("the bytes end too early") from None


def _read(data: bytes) -> Runs:
    (cookie,) = struct.unpack_from("<I", data, 0)
    place, flags = 4, b""
    if cookie & 0xFFFF == _COOKIE_RUNS:
        many = (cookie >> 16) + 1
        flags = data[4 : 4 + (many + 7) // 8]
        place += len(flags)
    elif cookie == _COOKIE:
        (many,) = struct.unpack_from("<I", data, 4)
        place = 8
    else:
        raise ValueError("I failed to find a valid cookie.")
    if many > 1 << 16:
        raise ValueError("Size too large")
    keys = [struct.unpack_from("<HH", data, place + 4 * at) for at in range(many)]
    place += 4 * many
    if not flags or many >= 4:
        place += 4 * many
    found: list[tuple[int, int]] = []
    for at, (high, less) in enumerate(keys):
        base, count = high << 16, less + 1
        if flags and flags[at // 8] >> (at % 8) & 1:
            (length,) = struct.unpack_from("<H", data, place)
            for index in range(length):
                first, more = struct.unpack_from("<HH", data, place + 2 + 4 * index)
                found.append((base + first, base + first + more))
            place += 2 + 4 * length
        elif count <= 4096:
            found += [(base + low, base + low) for low in struct.unpack_from(f"<{count}H", data, place)]
            place += 2 * count
        else:
            bits = format(int.from_bytes(data[place : place + 8192], "little"), "b")[::-1]
            if len(data) < place + 8192:
                raise ValueError("the bytes end too early")
            found += [(base + low, base + low) for low, bit in enumerate(bits) if bit == "1"]
            place += 8192
    return union(found)


# -- hashes


def _digest(name: str) -> Callable[..., str]:
    return lambda text: hashlib.new(
        name, text.encode() if isinstance(text, str) else text, usedforsecurity=False
    ).hexdigest()


def _sha2(text: str, bits: int) -> str:
    if bits not in {224, 256, 384, 512}:
        raise EvaluationError(f"Unsupported algorithm: SHA-{bits}; the length is one of 224, 256, 384, 512")
    return hashlib.new(f"sha{bits}", text.encode() if isinstance(text, str) else text).hexdigest()


def _hash_code(call: Call, evaluator: Any) -> Callable[..., int]:
    """Return Java's hash of a value."""
    type_ = call.args[0].type
    if is_text(type_):
        return java_hash
    if isinstance(type_, BooleanType):
        return lambda value: 1231 if value else 1237
    if isinstance(type_, IntegralType):
        return (lambda value: wrap(value ^ (value >> 32), 32)) if type_.bits == 64 else int
    if isinstance(type_, DoubleType | FloatType):
        import struct

        return lambda value: wrap((bits := struct.unpack(">q", struct.pack(">d", value))[0]) ^ (bits >> 32), 32)
    return lambda value: java_hash(str(value))


def java_hash(text: str) -> int:
    """Return ``String.hashCode``.

    >>> java_hash("abc")
    96354
    """
    data = text.encode("utf-16-be")
    found = 0
    for at in range(0, len(data), 2):
        found = (found * 31 + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return wrap(found, 32)


# -- URLs and addresses

_URL = re.compile(
    r"(?P<PROTOCOL>[A-Za-z][\w+.-]*):(?://(?P<AUTHORITY>[^/?#]*))?(?P<PATH>[^?#]*)(?:\?(?P<QUERY>[^#]*))?(?:#(?P<REF>.*))?",
    re.DOTALL,
)


def _parse_url(url: str, part: str, key: str | None = None) -> str | None:
    match = _URL.fullmatch(url)
    if match is None or match.group("PROTOCOL").lower() not in {"http", "https", "ftp", "file", "jar", "mailto"}:
        return None
    query = match.group("QUERY")
    if key is not None:
        if part != "QUERY" or query is None:
            return None
        found = re.search(rf"(?:&|^){re.escape(key)}=([^&]*)", query)
        return found.group(1) if found else None
    authority = match.group("AUTHORITY")
    info, at, host = (authority or "").rpartition("@")
    port = re.fullmatch(r"(.*?)(?::(\d*))?", host, re.DOTALL)
    if port is None or (":" in host and not re.fullmatch(r".*:\d*|\[.*\]", host)):
        return None
    path = match.group("PATH") or ""
    values = {
        "HOST": port.group(1),
        "PATH": path,
        "QUERY": query,
        "REF": match.group("REF"),
        "PROTOCOL": match.group("PROTOCOL").lower(),
        "AUTHORITY": authority,
        "FILE": path + (f"?{query}" if query is not None else ""),
        "USERINFO": info if at else None,
    }
    return values.get(part)


def _url_decode(text: str) -> str | None:
    if re.search(r"%(?![0-9a-fA-F]{2})", text):
        return None
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


def _inet_aton(text: str) -> int | None:
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(re.fullmatch(r"[0-9]+", part) for part in parts):
        return None
    numbers = [int(part) for part in parts]
    if any(number > 255 for number in numbers):
        return None
    *heads, last = numbers
    return sum(number << (24 - 8 * at) for at, number in enumerate(heads)) + last


def _inet_ntoa(value: int) -> str | None:
    if not 0 <= value < 1 << 32:
        return None
    return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))


# -- bitmaps


def _unsigned(value: int) -> int:
    return value & 0xFFFFFFFF


def _build(array: Any) -> Any:
    return runs_of(_unsigned(each) for each in array if each is not None)


def _from_bytes(data: bytes) -> Any:
    try:
        return from_bytes(data)
    except ValueError as error:
        raise EvaluationError(
            f"Failed to deserialize bitmap from bytes. {str(error)[:1].upper()}{str(error)[1:]}"
        ) from None


def _to_array(runs: Any) -> list[int]:
    return [wrap(number, 32) for first, last in runs for number in range(first, last + 1)]


def _range(name: str) -> Callable[..., Any]:
    return {
        "AND": intersection,
        "OR": lambda a, b: union([*a, *b]),
        "XOR": symmetric,
        "ANDNOT": difference,
    }[name]


def _session(name: str) -> Any:
    return bound(lambda call, evaluator: lambda: evaluator.context.parameters.get(name, f"default_{name}"))


def _row(
    group: str, name: str, params: Any, returns: Any, kernel: Any, text: str, *examples: tuple[str, str], **more: Any
) -> FunctionRule:
    return function(name, params, returns, kernel, text, *examples, group=group, **more)


_HASHES: list[FunctionRule] = [
    _row(
        "hashes",
        name,
        "text|bytes",
        f"CHAR({bits // 4})",
        _digest(name.lower()),
        f"The {name} digest as hexadecimal digits.",
        (f"CHAR_LENGTH({name}('a'))", str(bits // 4)),
    )
    for name, bits in (
        ("MD5", 128),
        ("SHA1", 160),
        ("SHA224", 224),
        ("SHA256", 256),
        ("SHA384", 384),
        ("SHA512", 512),
    )
]
_PLAIN: list[FunctionRule] = [
    _row(
        "hashes",
        "SHA2",
        "text|bytes int",
        "VARCHAR(128)",
        _sha2,
        "The SHA-2 digest of a length: 224, 256, 384 or 512.",
        ("CHAR_LENGTH(SHA2('a', 224))", "56"),
        raises=True,
    ),
    _row(
        "hashes",
        "HASH_CODE",
        "any",
        "INT",
        bound(_hash_code),
        "The hash code that Java gives the value.",
        ("HASH_CODE('abc')", "96354"),
    ),
    _row(
        "urls",
        "PARSE_URL",
        "text text text?",
        "STRING?",
        _parse_url,
        "A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, AUTHORITY, FILE, USERINFO; or a parameter of its query.",
        ("PARSE_URL('http://a.org/b?c=1', 'QUERY', 'c')", "1"),
    ),
    _row(
        "urls",
        "URL_ENCODE",
        "text",
        "STRING?",
        lambda text: quote_plus(text, safe="*-._").replace("~", "%7E"),
        "The text as a part of a URL.",
        ("URL_ENCODE('a b')", "a+b"),
    ),
    _row(
        "urls",
        "URL_DECODE",
        "text",
        "STRING?",
        _url_decode,
        "The text of a part of a URL; NULL if it is wrong.",
        ("URL_DECODE('a+b')", "a b"),
    ),
    _row(
        "urls",
        "INET_ATON",
        "text",
        "BIGINT?",
        _inet_aton,
        "The number of an IPv4 address.",
        ("INET_ATON('127.0.0.1')", "2130706433"),
    ),
    _row(
        "urls",
        "INET_NTOA",
        "bigint",
        "STRING?",
        _inet_ntoa,
        "The IPv4 address of a number.",
        ("INET_NTOA(2130706433)", "127.0.0.1"),
    ),
    _row(
        "session",
        "CURRENT_DATABASE",
        "",
        "STRING!",
        _session("database"),
        "The name of the current database.",
        determinism=Determinism.PER_QUERY,
    ),
    _row(
        "session",
        "CURRENT_CATALOG",
        "",
        "STRING!",
        _session("catalog"),
        "The name of the current catalog.",
        determinism=Determinism.PER_QUERY,
    ),
]


def _integers(args: Any, options: Any) -> str | None:
    element = args[0].type.element
    return (
        None
        if isinstance(element, IntegralType) and element.bits <= 32
        else f"An array of {element} is no array of integers."
    )


_ONE = "BITMAP_BUILD(ARRAY[1, 2])"
_BITMAPS: list[FunctionRule] = [
    _row(
        "bitmap",
        "BITMAP_BUILD",
        "array",
        "BITMAP",
        _build,
        "The bitmap of an array of 32-bit integers.",
        (_ONE, "{1,2}"),
        check=_integers,
        signatures=("BITMAP_BUILD(array ARRAY<INT> NOT NULL)", "BITMAP_BUILD(array ARRAY<INT>)"),
    ),
    _row(
        "bitmap",
        "BITMAP_CARDINALITY",
        "bitmap:bitmap",
        "BIGINT",
        size,
        "How many numbers are in the bitmap.",
        (f"BITMAP_CARDINALITY({_ONE})", "2"),
    ),
    _row(
        "bitmap",
        "BITMAP_CONTAINS",
        "bitmap:bitmap value:int",
        "BOOLEAN",
        lambda runs, value: contains(runs, _unsigned(value)),
        "Whether a number is in the bitmap.",
        (f"BITMAP_CONTAINS({_ONE}, 2)", "TRUE"),
    ),
    _row(
        "bitmap",
        "BITMAP_FROM_BYTES",
        "bytes:bytes",
        "BITMAP",
        _from_bytes,
        "The bitmap of the bytes of the roaring format.",
        (f"BITMAP_FROM_BYTES(BITMAP_TO_BYTES({_ONE}))", "{1,2}"),
        raises=True,
    ),
    _row(
        "bitmap",
        "BITMAP_TO_BYTES",
        "bitmap:bitmap",
        "BYTES",
        to_bytes,
        "The bytes of the bitmap in the roaring format.",
        (f"HEX(BITMAP_TO_BYTES({_ONE}))", "3A300000010000000000010010000000" + "01000200"),
    ),
    _row(
        "bitmap",
        "BITMAP_TO_ARRAY",
        "bitmap:bitmap",
        "ARRAY<INT>",
        _to_array,
        "The numbers of the bitmap.",
        (f"BITMAP_TO_ARRAY({_ONE})", "[1, 2]"),
    ),
    _row(
        "bitmap",
        "BITMAP_TO_STRING",
        "bitmap:bitmap",
        "STRING",
        bitmap_text,
        "The bitmap as a text.",
        (f"BITMAP_TO_STRING({_ONE})", "{1,2}"),
    ),
]


def _set_operations() -> list[FunctionRule]:
    found = []
    for name, text, value in (
        ("AND", "The numbers of both bitmaps.", "{2}"),
        ("OR", "The numbers of either bitmap.", "{1,2,3}"),
        ("XOR", "The numbers of exactly one bitmap.", "{1,3}"),
        ("ANDNOT", "The numbers of the first bitmap only.", "{1}"),
    ):
        example = f"BITMAP_{name}({_ONE}, BITMAP_BUILD(ARRAY[2, 3]))"
        found.append(
            _row(
                "bitmap",
                f"BITMAP_{name}",
                "bitmap1:bitmap bitmap2:bitmap",
                "BITMAP",
                _range(name),
                text,
                (example, value),
            )
        )
    return found


ROWS = [*_HASHES, *_PLAIN, *_BITMAPS, *_set_operations()]

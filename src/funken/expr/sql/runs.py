"""Bitmaps as runs of integers, ``((first, last), ...)``: their algebra, and the standard bytes of roaring bitmaps."""

from __future__ import annotations

import struct
from collections.abc import Iterable

Runs = tuple[tuple[int, int], ...]
FULL = (1 << 32) - 1


def runs_of(numbers: Iterable[int]) -> Runs:
    """Return the runs of unsigned numbers.

    >>> runs_of([3, 1, 2, 7])
    ((1, 3), (7, 7))
    """
    return union([(number, number) for number in numbers])


def union(runs: Iterable[tuple[int, int]]) -> Runs:
    """Return the runs of what is in any of these."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            if last > found[-1][1]:
                found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)


def intersection(one: Runs, other: Runs) -> Runs:
    """Return the runs of what is in both."""
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
    """Return the runs of what is in the first only."""
    return intersection(one, complement(other))


def symmetric(one: Runs, other: Runs) -> Runs:
    """Return the runs of what is in exactly one."""
    return union([*difference(one, other), *difference(other, one)])


def size(runs: Runs) -> int:
    """Return how many numbers there are."""
    return sum(last - first + 1 for first, last in runs)


def contains(runs: Runs, number: int) -> bool:
    """Whether a number is in the runs."""
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

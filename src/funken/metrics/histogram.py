"""A latency histogram that is a dict of counts: two significant digits, merges by addition, travels as plain data.

Buckets are log-linear as in HdrHistogram: the power of two and the next five bits, so an error of at most 3 %.
"""

from __future__ import annotations

from collections.abc import Mapping


def bucket_of(micros: int) -> int:
    """Return the bucket of a latency (us).

    >>> value_of(bucket_of(1000)), value_of(bucket_of(20))
    (992, 20)
    """
    if micros < 64:
        return max(0, micros)
    shift = micros.bit_length() - 6
    return ((shift + 1) << 5) + (micros >> shift)


def value_of(bucket: int) -> int:
    """Return the lowest latency (us) of a bucket."""
    if bucket < 64:
        return bucket
    shift = (bucket >> 5) - 2
    return ((bucket & 31) + 32) << shift


def merge(into: dict[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """Add the counts of one histogram to another, and return it."""
    for bucket, count in other.items():
        into[bucket] = into.get(bucket, 0) + count
    return into


def percentile(histogram: Mapping[int, int], q: float) -> float | None:
    """Return the latency (ms) at quantile ``q`` from 0 to 1; ``None`` without any.

    >>> percentile({bucket_of(5000): 99, bucket_of(80_000): 1}, 0.5)
    4.992
    """
    total = sum(histogram.values())
    if not total:
        return None
    left = q * total
    for bucket in sorted(histogram):
        left -= histogram[bucket]
        if left <= 0:
            return value_of(bucket) / 1000
    return value_of(max(histogram)) / 1000

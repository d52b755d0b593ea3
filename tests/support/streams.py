"""What comes out of a program."""

from __future__ import annotations


def collected(stream):
    """Run a program and return all records of a stream."""
    with stream.execute_and_collect() as records:
        return list(records)

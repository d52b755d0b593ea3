"""The identities and units that cross module borders, as types.

A bare ``int`` says neither what it names nor what it counts; these do, and cost nothing at run time.
"""

from __future__ import annotations

from typing import NewType

Millis = NewType("Millis", int)
"""A point in time or a duration in milliseconds; points are since the Unix epoch, UTC."""

OperatorId = NewType("OperatorId", int)
"""The position of an operator in its job graph; a ``uid`` survives a change of the program."""

EdgeId = NewType("EdgeId", int)
"""An edge of the physical plan: from one vertex to one input of another."""

CheckpointId = NewType("CheckpointId", int)
KeyGroup = NewType("KeyGroup", int)

MIN_TIMESTAMP: int = -(2**63)
"""The timestamp of a record that has none, and the watermark before any has come (``Long.MIN_VALUE``)."""

MAX_WATERMARK: int = 2**63 - 1
"""The watermark that ends event time: no record follows it (``Long.MAX_VALUE``)."""

DEFAULT_MAX_PARALLELISM = 128

"""Between streams and tables: ``from_data_stream``, ``to_data_stream`` and the like; and tables of what a program holds."""

from __future__ import annotations

from typing import Any


class StreamConversions:
    """The part of ``StreamTableEnvironment`` that knows streams."""


__all__ = ["StreamConversions"]

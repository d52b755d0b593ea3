"""Values as ``json.dumps`` writes them, one by one."""

from __future__ import annotations

import functools
import json
from typing import Any

from funken.dataclass import dataclass


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


__all__ = ["JsonOptions", "value_as_json"]

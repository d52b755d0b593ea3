"""A cache of results with an expiry date: what ``cached(...)`` adds to an asynchronous function.

Invariant: entries are in the order in which they expire, so that dropping what has expired never searches. No clock is
read here: time (s) is an argument.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.state.keys.normal import one_nan


@dataclass(frozen=True)
class CacheSpec:
    """How long a result is kept (ms), how many at most, and the key of a value (``None``: the value itself).

    ``combine(value, result)`` makes a record's result of what is kept for its key (``None``: it is the result).
    """

    ttl_ms: int
    max_size: int
    key: Callable[[Any], Hashable] | None = None
    combine: Callable[[Any, list[Any]], Iterable[Any]] | None = None

    def __post_init__(self) -> None:
        if self.ttl_ms <= 0 or self.max_size <= 0:
            raise InvalidProgram(
                f"a cache needs a ttl and a max_size above 0, but got {self.ttl_ms} ms and {self.max_size} entries."
            )


class ResultCache:
    """The results of one subtask; when it is full, the oldest goes.

    >>> cache = ResultCache(CacheSpec(ttl_ms=1000, max_size=2))
    >>> cache.put("a", [1], now=0.0)
    >>> cache.get("a", now=0.9), cache.get("a", now=1.0)
    ([1], None)
    """

    def __init__(self, spec: CacheSpec) -> None:
        self._ttl = spec.ttl_ms / 1000
        self._max_size = spec.max_size
        self._key = spec.key
        # A dict would look for its first entry behind all deleted ones.
        self._entries: OrderedDict[Hashable, tuple[float, list[Any]]] = OrderedDict()

    def key_of(self, value: Any) -> Hashable:
        """Return the key of a value; raises ``TypeError`` for one that cannot be a key."""
        key: Hashable = value if self._key is None else self._key(value)
        try:
            hash(key)
        except TypeError as error:
            raise TypeError(
                f"{error}: results cannot be cached by {key!r}. Pass cached(..., key=...), a function that returns "
                "something hashable for each value."
            ) from None
        found: Hashable = one_nan(key)
        return found

    def get(self, key: Hashable, now: float) -> list[Any] | None:
        """Return the result of a key, if there is one that has not expired."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and now < entry[0] else None

    def put(self, key: Hashable, result: list[Any], now: float) -> None:
        """Keep a result."""
        entries = self._entries
        entries.pop(key, None)
        entries[key] = (now + self._ttl, result)
        while len(entries) > self._max_size or entries[next(iter(entries))][0] <= now:
            entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)

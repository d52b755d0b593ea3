"""Views: lists and maps as parts of accumulators, with the names of Flink's methods."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


class ListView(list):  # type: ignore[type-arg]
    """A list as part of an accumulator.

    >>> view = ListView()
    >>> view.add(1)
    >>> view.get()
    [1]
    """

    def add(self, value: Any) -> None:
        """Append a value."""
        self.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append values."""
        self.extend(values)

    def get(self) -> list[Any]:
        """Return the values."""
        return list(self)

    def clear(self) -> None:
        """Remove all values."""
        del self[:]


class _Removable(Iterator[Any]):
    """Goes over a map as it was at first; what it gave last may be removed from the map."""

    def __init__(self, data: dict[Any, Any], given: Iterable[Any]) -> None:
        self._data = data
        self._pairs = iter(list(zip(data, given, strict=True)))
        self._key: Any = None

    def __next__(self) -> Any:
        self._key, found = next(self._pairs)
        return found

    def remove(self) -> None:
        """Remove what was given last."""
        self._data.pop(self._key, None)


class MapView(UserDict[Any, Any]):
    """A map as part of an accumulator.

    >>> view = MapView()
    >>> view.put("a", 1)
    >>> view.contains("a"), view.is_empty()
    (True, False)
    """

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key."""
        self[key] = value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key."""
        return self.data.get(key, default)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set several values."""
        self.update(dict_value)

    def items(self) -> Any:
        """Return the keys with their values."""
        return _Removable(self.data, self.data.items())

    def keys(self) -> Any:
        """Return the keys; ``remove()`` of their iterator removes the last one that it gave."""
        return _Removable(self.data, self.data)

    def values(self) -> Any:
        """Return the values."""
        return _Removable(self.data, self.data.values())

    def clear(self) -> None:
        """Remove all keys."""
        self.data.clear()

    def remove(self, key: Any) -> None:
        """Remove a key."""
        self.pop(key, None)

    def contains(self, key: Any) -> bool:
        """Return True if a key is there."""
        return key in self

    def is_empty(self) -> bool:
        """Return True if there is no key."""
        return not self

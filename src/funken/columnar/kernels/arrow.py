"""Arrow, which is loaded when something of it is first used: that takes 0.1 s, and it is needed for text and many keys only."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _LoadedLater:
    """A module; what was asked for once is an attribute from then on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


pa: Any = _LoadedLater("pyarrow")
pc: Any = _LoadedLater("pyarrow.compute")


def mask_of_bits(bits: Any) -> Any:
    """Return an array of bools, none of them null, as one of NumPy."""
    return bits.to_numpy(zero_copy_only=False)


__all__ = ["mask_of_bits", "pa", "pc"]

"""The type variables that PyFlink's modules define and programs import with the classes that they parametrize."""

from __future__ import annotations

from typing import TypeVar

from funken.windowing.windows import Window

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
KEY = TypeVar("KEY")
IN = TypeVar("IN")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
ACC = TypeVar("ACC")
W = TypeVar("W", bound=Window)
W2 = TypeVar("W2")

__all__ = ["ACC", "IN", "IN1", "IN2", "KEY", "OUT", "W2", "K", "T", "V", "W"]

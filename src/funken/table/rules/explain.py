from __future__ import annotations
from typing import Any
def line(node: Any, reused: Any) -> str:
    return type(node).__name__.removeprefix("Exec")

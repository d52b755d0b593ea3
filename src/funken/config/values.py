"""Values of options as text or Python objects: durations, sizes and truth values.

Each function takes any spelling and returns one form, or raises ``ValueError`` with what may be written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from os import PathLike, fspath
from typing import Any

from funken.io.durations import duration_ms


def boolean(value: Any) -> bool:
    """Turn ``"true"`` and ``"false"``, in any case, into a truth value.

    >>> boolean("True"), boolean(False)
    (True, False)
    """
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise ValueError(f"{value!r} is neither true nor false")


_SIZES = {"": 1, "b": 1, "bytes": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}


def memory_bytes(value: Any) -> int:
    """Turn a size into bytes: ``"20 kb"``, ``"64mb"``, ``"1g"``, or a plain number of bytes.

    >>> memory_bytes("20 kb"), memory_bytes("1g"), memory_bytes(512)
    (20480, 1073741824, 512)
    """
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", str(value).lower())
    if found is None or found[2] not in _SIZES:
        raise ValueError(f"{value!r} is no size; write e.g. '20 kb', '64 mb', '1 g', or a number of bytes")
    return int(found[1]) * _SIZES[found[2]]


# ---- How the values of options are read: each function takes what a user may write, and returns it or a function
# that does.
#
# What is not allowed raises ``ValueError`` with what is.


def integer(value: Any) -> int:
    """Read a whole number, from an int or text."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return int(value)
        except ValueError:
            pass
    raise ValueError(f"{value!r} is no whole number")


def decimal(value: Any) -> float:
    """Read a number."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass
    raise ValueError(f"{value!r} is no number")


def text(value: Any) -> str:
    """Read text, or a path."""
    if isinstance(value, str | PathLike):
        return str(fspath(value))
    raise ValueError(f"{value!r} is no text")


def items_of(value: str, separator: str) -> list[str]:
    r"""Split text into its items: those of a list of YAML in either of its styles, else the parts between separators.

    >>> items_of("a; b", ";"), items_of("[a, 'b']", ";"), items_of("- a\n- b", ";"), items_of(" [] ", ";")
    (['a', 'b'], ['a', 'b'], ['a', 'b'], [])
    """
    found = (value or "").strip()
    lines = found.splitlines()
    if lines and all(line.lstrip().startswith("- ") for line in lines):
        items = [line.lstrip()[2:] for line in lines]
    elif found.startswith("[") and found.endswith("]"):
        items = found[1:-1].split(",") if found[1:-1].strip() else []
    else:
        items = found.split(separator) if found else []
    return [_unquoted(item) for item in items]


def _unquoted(text: str) -> str:
    return text.strip().strip("'\"")


def string_map(value: Any) -> dict[str, str]:
    r"""Read a mapping of texts: a dict, ``"key:value,key:value"``, or a mapping of YAML in either of its styles.

    >>> string_map("a:1,b:x:y"), string_map("{a: 1, 'b': x}"), string_map("a: 1\nb: x")
    ({'a': '1', 'b': 'x:y'}, {'a': '1', 'b': 'x'}, {'a': '1', 'b': 'x'})
    """
    try:
        if isinstance(value, str):
            inner = value.strip()
            inner = inner[1:-1] if inner.startswith("{") and inner.endswith("}") else inner
            pairs = inner.splitlines() if "\n" in inner else inner.split(",")
            split = (pair.split(":", 1) for pair in pairs if pair.strip())
            value = {_unquoted(key): _unquoted(text) for key, text in split}
        return {str(k): str(v) for k, v in dict(value).items()}
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is no mapping; write a dict, or 'key:value,key:value'") from None


def at_least(least: int, parse: Callable[[Any], int] = integer, or_else: int | None = None) -> Callable[[Any], int]:
    """Refuse numbers below ``least``, but for ``or_else``."""

    def check(value: Any) -> int:
        number = parse(value)
        if number < least and number != or_else:
            other = "" if or_else is None else f", or {or_else}"
            raise ValueError(f"{value!r} is not allowed; it must be {least} or more{other}")
        return number

    check.__wrapped__ = parse  # type: ignore[attr-defined]
    return check


def between(fits: Callable[[float], bool], allowed: str) -> Callable[[Any], float]:
    """Refuse numbers that do not fit."""

    def check(value: Any) -> float:
        number = decimal(value)
        if not fits(number):
            raise ValueError(f"{value!r} is not allowed; it must be {allowed}")
        return number

    return check


def one_of(*allowed: str) -> Callable[[Any], str]:
    """Refuse values other than these, in any case; an enum's member counts by its name."""

    def parse(value: Any) -> str:
        text = str(getattr(value, "name", value)).lower()
        if text not in allowed:
            raise ValueError(f"{value!r} is not one of {', '.join(allowed)}")
        return text

    return parse


def same(**spellings: str) -> Callable[[Any], str]:
    """Take any spelling of a name: ``fixed_delay="fixed-delay, fixeddelay"``; the first one is kept."""
    known = {word: names.split(", ")[0] for names in spellings.values() for word in names.split(", ")}

    def parse(value: Any) -> str:
        text = str(getattr(value, "name", value)).lower()
        if text not in known:
            raise ValueError(f"{value!r} is not one of {', '.join(dict.fromkeys(known.values()))}")
        return known[text]

    return parse


def of_any_reporter(name: str, declared: Collection[str]) -> str:
    """Return the key under which an option is declared that there is once for every reporter; empty if it is none.

    >>> of_any_reporter("metrics.reporter.mine.interval", ["metrics.reporter.<name>.interval"])
    'metrics.reporter.<name>.interval'
    >>> of_any_reporter("metrics.reporter.mine.region", []), of_any_reporter("metrics.reporters", [])
    ('metrics.reporter.<name>.*', '')
    """
    parts = name.split(".", 3)
    if len(parts) < 4 or parts[:2] != ["metrics", "reporter"]:
        return ""
    key = f"metrics.reporter.<name>.{parts[3]}"
    return key if key in declared else "metrics.reporter.<name>.*"


__all__ = [
    "at_least",
    "between",
    "decimal",
    "duration_ms",
    "integer",
    "items_of",
    "memory_bytes",
    "one_of",
    "same",
    "string_map",
    "text",
]

"""``Configuration``: which options a program, an environment or the command line has set.

A value is checked when it is set and read when it is asked for. An unknown key is refused with the nearest known one; an
option of Flink that means nothing here is kept, with a warning that says why, so that the configuration of a ported job
does not fail.
"""

from __future__ import annotations

import difflib
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from funken.config.options import Option, all_names, declared, options
from funken.config.values import boolean
from funken.errors import InvalidConfiguration
from funken.io.durations import DurationLike, duration_ms, in_ms, is_bare

# ---- Options of Flink that are accepted and have no effect, each with the reason; and the nearest known key to any
# other.
#
# The names are in ``flink_options.txt``. It is read when the first key is set that Funken does not declare itself.


_CANDIDATES = 10
_FEW = 3


@cache
def groups() -> list[tuple[str, list[str]]]:
    """Return the options without effect as ``(reason, keys)``; a key that ends in ``*`` stands for all that begin so.

    >>> [keys for reason, keys in groups() if "tunes itself" in reason][0][:2]
    ['state.backend.rocksdb.block.blocksize', 'state.backend.rocksdb.block.cache-size']
    """
    found: list[tuple[str, list[str]]] = []
    for line in resources.files("funken.config").joinpath("flink_options.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            found.append((line[2:], []))
        elif line and not line.startswith("##") and declared(line) is None:
            found[-1][1].append(line)
    return found


@cache
def _reasons() -> tuple[dict[str, str], dict[str, str]]:
    """Return the reason of every key, and of every beginning of keys."""
    keys = {key: reason for reason, keys in groups() for key in keys}
    beginnings = {key[:-1]: reason for key, reason in keys.items() if key.endswith("*")}
    return {key: reason for key, reason in keys.items() if not key.endswith("*")}, beginnings


def no_effect(name: str) -> str | None:
    """Return the reason for which an option of Flink has no effect here, ``None`` if it is no such option.

    >>> no_effect("jobmanager.memory.heap.size")
    'Spark, not a JobManager and TaskManagers, starts and places the tasks; its own options say how'
    >>> no_effect("events.reporter.mine.port") is None, no_effect("jobmanager.memory.heap.sise") is None
    (False, True)
    """
    keys, beginnings = _reasons()
    if name in keys:
        return keys[name]
    return next((reason for beginning, reason in beginnings.items() if name.startswith(beginning)), None)


def is_option(name: str) -> bool:
    """Tell whether a key is that of an option, of Funken's or of Flink's.

    >>> is_option("parallelism.default"), is_option("taskmanager.numberOfTaskSlots"), is_option("my.switch")
    (True, True, False)
    """
    return declared(name) is not None or no_effect(name) is not None


@cache
def namespaces() -> frozenset[str]:
    """Return the first parts of all known keys.

    >>> {"execution", "restart-strategy", "taskmanager"} < namespaces()
    True
    """
    return frozenset(name.split(".", 1)[0] for name in (*all_names(), *_reasons()[0], *_reasons()[1]))


def nearest(name: str, least: float = 0.6) -> str | None:
    """Return the known key that differs least from ``name``; ``None`` if none is like it (``difflib``'s ratio).

    >>> nearest("execution.checkpointing.intervall"), nearest("taskmanager.numberOfTaskSlot"), nearest("colour")
    ('execution.checkpointing.interval', 'taskmanager.numberOfTaskSlots', None)
    """
    candidates = difflib.get_close_matches(name, [*all_names(), *_reasons()[0]], _CANDIDATES, least)
    typing = [known for known in candidates if _edits(name, known) <= _FEW]
    if typing:  # of two that are as near, the one that has an effect
        return min(typing, key=lambda known: (_edits(name, known), declared(known) is None, known))
    return candidates[0] if candidates else None


def _edits(one: str, other: str) -> int:
    """Count the characters to insert, delete or replace (Levenshtein's distance)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


T = TypeVar("T")

_KeySet = set[str]
_ALMOST, _SOMEWHAT = 0.88, 0.6
"""The similarities from which a key is taken for a known one (``difflib``'s ratio)."""


def warn(message: str) -> None:
    """Warn with the line of the program, not one of Funken's."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("funken."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


class Configuration:
    """A set of option values (PyFlink's ``Configuration``); values are checked when they are set.

    >>> from funken import config
    >>> conf = Configuration({"parallelism.default": 2}).set_string("execution.buffer-timeout.interval", "5 ms")
    >>> conf.get(config.BUFFER_TIMEOUT), conf.get(config.BLOCK_RECORDS)
    (5, 8000)
    >>> conf.contains_key("parallelism.default"), sorted(conf.key_set()), conf.to_dict()["parallelism.default"]
    (True, ['execution.buffer-timeout.interval', 'parallelism.default'], 2)

    The getters of PyFlink read the set value, or their default:

    >>> conf.get_integer("parallelism.default", 1), conf.get_string("pipeline.name", "a job")
    (2, 'a job')
    >>> conf.get_boolean("pipeline.operator-chaining.enabled", True), conf.get_float("user.share", 0.5)
    (True, 0.5)
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        if values is not None and not isinstance(values, Mapping):
            raise TypeError(f"options are a dict, as in {{'parallelism.default': 2}}, but got {values!r:.100}.")
        for key, value in (values or {}).items():
            self.set(key, value)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Configuration:
        """Make a configuration of a mapping from key to value.

        >>> Configuration.from_dict({"parallelism.default": 2})
        Configuration({"parallelism.default": 2})
        """
        return cls(values)

    def set(self, key: str | Option[Any], value: Any) -> Configuration:
        """Set an option, by key or as declared; raises ``InvalidConfiguration`` for an unknown key or an unfit value.

        >>> from funken import config
        >>> Configuration().set(config.BUFFER_TIMEOUT, "5 ms").set("paralelism.default", 2)
        Traceback (most recent call last):
        ...
        funken.errors.InvalidConfiguration: option 'paralelism.default' is unknown. Did you mean 'parallelism.default'?
        >>> Configuration().set("parallelism.default", "two")
        Traceback (most recent call last):
        ...
        funken.errors.InvalidConfiguration: option 'parallelism.default': 'two' is no whole number. It means: Subtasks per
        operator. -1: one per core, or what the session's slots allow.
        """
        name = key.key if isinstance(key, Option) else key
        self._check(name, value)
        self._warn_of_unit(name, value)
        of_tables = name.startswith(("table.", "sql-client."))  # a table environment over this configuration reads them
        if declared(name) is None and not of_tables and (reason := no_effect(name)) is not None:
            warn(f"option {name!r} has no effect here because {reason}.")
        self._values[name] = value
        return self

    def set_duration(self, key: str | Option[int], duration: DurationLike) -> Configuration:
        """Set an option to a duration, which is kept as a number of milliseconds.

        >>> Configuration().set_duration("execution.checkpointing.interval", "10 s")
        Configuration({"execution.checkpointing.interval": 10000})
        """
        name = key.key if isinstance(key, Option) else key
        self._check(name, duration)
        self._warn_of_unit(name, duration)
        self._values[name] = duration_ms(duration)
        return self

    def _check(self, name: str, value: Any) -> None:
        """Raise ``InvalidConfiguration`` for an unknown key or an unfit value."""
        option = declared(name)
        if option is None:
            if no_effect(name) is None:
                self._unknown(name)
            return
        try:
            option.parse(value)
        except (ValueError, TypeError) as error:
            raise InvalidConfiguration(f"option {name!r}: {error}. It means: {option.doc}") from None

    def _warn_of_unit(self, name: str, value: Any) -> None:
        """Warn of a few milliseconds without a unit."""
        option = declared(name)
        if option is not None and option.is_long and is_bare(value):
            warn(in_ms(f"option {name!r} is", duration_ms(value)))

    def _unknown(self, name: str) -> None:
        """Raise for a key that neither Funken nor Flink has."""
        least = _ALMOST if name.startswith("spark.") else _SOMEWHAT
        near = nearest(name, least) or nearest(name.lower(), least)
        if near is not None:
            hint = f"Did you mean {near!r}?"
        elif name.startswith("spark."):
            hint = "Options of Spark are set where its session is made, as in SparkSession.builder.config(...)."
        else:
            hint = f"Known options: {', '.join(option.key for option in options())}."
        raise InvalidConfiguration(f"option {name!r} is unknown. {hint}")

    def get(self, option: Option[T]) -> T:
        """Return an option's value, or its default; the newest of its names that was set counts."""
        if not isinstance(option, Option):
            raise InvalidConfiguration(
                f"get() takes an option of funken.config, such as config.PARALLELISM, but got {option!r}. "
                "get_string(key, default) reads by name."
            )
        for name in (option.key, *option.older):
            if name in self._values:
                return option.parse(self._values[name])
        return option.default

    def set_string(self, key: str, value: str) -> Configuration:
        """Set an option from text, or from an argument of PyFlink's other setters; returns the configuration.

        >>> Configuration().set_string("pipeline.name", "words").set_integer("parallelism.default", 2)
        Configuration({"pipeline.name": "words", "parallelism.default": 2})
        """
        return self.set(key, value)

    set_integer = set_boolean = set_float = set_bytearray = set_string

    def get_string(self, key: str, default_value: str) -> str:
        """Return a value as text."""
        return str(self._values.get(key, default_value))

    def get_integer(self, key: str, default_value: int) -> int:
        """Return a value as a whole number."""
        return int(self._values.get(key, default_value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return a value as a truth value."""
        return boolean(self._values.get(key, default_value))

    def get_float(self, key: str, default_value: float) -> float:
        """Return a value as a number."""
        return float(self._values.get(key, default_value))

    def contains_key(self, key: str) -> bool:
        """Tell whether a value was set."""
        return key in self._values

    def key_set(self) -> _KeySet:
        """Return the keys that were set."""
        return set(self._values)

    def remove_config(self, key: str) -> bool:
        """Forget a value; tell whether there was one.

        >>> conf = Configuration({"pipeline.name": "words"})
        >>> conf.remove_config("pipeline.name"), conf.remove_config("pipeline.name"), conf
        (True, False, Configuration({}))
        """
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str = "") -> Configuration:
        """Take over all values of another configuration; ``prefix`` is put before its keys.

        >>> Configuration({"pipeline.name": "words"}).add_all(Configuration({"parallelism.default": 2}))
        Configuration({"pipeline.name": "words", "parallelism.default": 2})
        """
        for key, value in other.to_dict().items():
            if prefix:
                self.set(prefix + key, value)
            else:  # a warning was given when it was set
                self._check(key, value)
                self._values[key] = value
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the values that were set."""
        return dict(self._values)

    def copy(self) -> Configuration:
        """Return an independent copy.

        >>> conf = Configuration({"pipeline.name": "words"})
        >>> _ = conf.copy().set("pipeline.name", "counts")
        >>> conf
        Configuration({"pipeline.name": "words"})
        """
        copied = type(self)()
        copied._values.update(self._values)
        return copied

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Configuration({json.dumps(self._values, default=str)})"


_defaults = Configuration()


def set_default_configuration(configuration: Configuration) -> Configuration:
    """Set the base of ``get_execution_environment()`` in this process, and return the former one.

    This is how the options of the command line reach a program; the program's own settings win, as in Flink.

    >>> before = set_default_configuration(Configuration({"parallelism.default": 3}))
    >>> default_configuration()
    Configuration({"parallelism.default": 3})
    >>> _ = set_default_configuration(before)
    """
    global _defaults
    before, _defaults = _defaults, configuration.copy()
    return before


def default_configuration() -> Configuration:
    """Return a copy of the configuration of ``set_default_configuration``; empty if it was not called.

    >>> before = set_default_configuration(Configuration())
    >>> default_configuration(), set_default_configuration(before)
    (Configuration({}), Configuration({}))
    """
    return _defaults.copy()


__all__ = [
    "Configuration",
    "default_configuration",
    "groups",
    "is_option",
    "namespaces",
    "nearest",
    "no_effect",
    "set_default_configuration",
]

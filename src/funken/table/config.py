"""``TableConfig``: the options of queries (``table.*``), beside those of the job.

Keys are Flink's. An option that Funken reads has its default and its type here; others of Flink's ``table.*`` are kept, and have
no effect.
"""

from __future__ import annotations

import datetime
import enum
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from funken.config import Configuration
from funken.config.configuration import is_option, nearest, warn
from funken.config.values import boolean, integer
from funken.errors import InvalidConfiguration
from funken.io.durations import duration_ms, in_ms, is_bare, written_ms
from funken.types.callables import check_kind

_TEXT: Callable[[Any], Any] = str


def _one_of(*words: str) -> Callable[[Any], str]:
    """Return a parser of one of some words, in capitals or not."""

    def parse(value: Any) -> str:
        if str(value).upper() not in words:
            raise ValueError(f"{value!r} is none of {', '.join(words)}")
        return str(value).upper()

    return parse


_SWITCH = _one_of("ENABLED", "DISABLED")
_SHUFFLE = _one_of("NONE", "AUTO", "FORCE")
_RETRY = _one_of("FIXED_DELAY", "NO_RETRY")
_OPTIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "table.builtin-catalog-name": (_TEXT, "default_catalog"),
    "table.builtin-database-name": (_TEXT, "default_database"),
    "table.column-expansion-strategy": (_TEXT, ""),
    "table.display.max-column-width": (integer, 30),
    "table.dml-sync": (boolean, False),
    "table.dynamic-table-options.enabled": (boolean, True),
    "table.exec.async-lookup.buffer-capacity": (integer, 100),
    "table.exec.async-lookup.timeout": (duration_ms, 180_000),
    "table.exec.async-lookup.output-mode": (_one_of("ORDERED", "ALLOW_UNORDERED"), "ORDERED"),
    "table.exec.async-scalar.max-concurrent-operations": (integer, 10),
    "table.exec.async-scalar.timeout": (duration_ms, 180_000),
    "table.exec.async-scalar.retry-strategy": (_RETRY, "FIXED_DELAY"),
    "table.exec.async-scalar.retry-delay": (duration_ms, 100),
    "table.exec.async-scalar.max-attempts": (integer, 3),
    "table.exec.async-table.max-concurrent-operations": (integer, 10),
    "table.exec.async-table.timeout": (duration_ms, 180_000),
    "table.exec.async-table.retry-delay": (duration_ms, 100),
    "table.exec.async-table.max-retries": (integer, 3),
    "table.exec.async-table.retry-strategy": (_RETRY, "FIXED_DELAY"),
    "table.exec.deduplicate.insert-update-after-sensitive-enabled": (boolean, True),
    "table.exec.emit.allow-lateness": (duration_ms, None),
    "table.exec.emit.early-fire.delay": (duration_ms, None),
    "table.exec.emit.early-fire.enabled": (boolean, False),
    "table.exec.emit.late-fire.delay": (duration_ms, None),
    "table.exec.emit.late-fire.enabled": (boolean, False),
    "table.exec.interval-join.min-cleanup-interval": (duration_ms, 0),
    "table.exec.legacy-cast-behaviour": (_SWITCH, "DISABLED"),
    "table.exec.mini-batch.allow-latency": (duration_ms, 0),
    "table.exec.mini-batch.enabled": (boolean, False),
    "table.exec.mini-batch.size": (integer, -1),
    "table.exec.rank.topn-cache-size": (integer, 10_000),
    "table.exec.resource.default-parallelism": (integer, -1),
    "table.exec.sink.keyed-shuffle": (_SHUFFLE, "AUTO"),
    "table.exec.sink.nested-constraint-enforcer": (_one_of("IGNORE", "ROWS", "ROWS_AND_COLLECTIONS"), "IGNORE"),
    "table.exec.sink.not-null-enforcer": (_one_of("ERROR", "DROP"), "ERROR"),
    "table.exec.sink.require-on-conflict": (boolean, True),
    "table.exec.sink.rowtime-inserter": (_SWITCH, "ENABLED"),
    "table.exec.sink.type-length-enforcer": (_one_of("IGNORE", "TRIM_PAD", "ERROR"), "IGNORE"),
    "table.exec.sink.upsert-materialize": (_SHUFFLE, "AUTO"),
    "table.exec.source.cdc-events-duplicate": (boolean, False),
    "table.exec.source.idle-timeout": (duration_ms, 0),
    "table.exec.state.ttl": (duration_ms, 0),
    "table.local-time-zone": (_TEXT, "default"),
    "table.optimizer.agg-phase-strategy": (_one_of("AUTO", "ONE_PHASE", "TWO_PHASE"), "AUTO"),
    "table.optimizer.distinct-agg.split.bucket-num": (integer, 1024),
    "table.optimizer.distinct-agg.split.enabled": (boolean, False),
    "table.optimizer.incremental-agg-enabled": (boolean, True),
    "table.optimizer.join.broadcast-threshold": (integer, 1_048_576),
    "table.optimizer.multi-join.enabled": (boolean, False),
    "table.optimizer.non-deterministic-update.strategy": (_one_of("IGNORE", "TRY_RESOLVE"), "IGNORE"),
    "table.optimizer.reuse-source-enabled": (boolean, True),
    "table.optimizer.reuse-sub-plan-enabled": (boolean, True),
    "table.plan.force-recompile": (boolean, False),
    "table.sql-dialect": (_TEXT, "default"),
}
_SHORT = 200
"""An option with a default of so many milliseconds may be set to a few of them."""
_RENAMED = {"table.optimizer.nonDeterministic-update.strategy": "table.optimizer.non-deterministic-update.strategy"}
_OWN = ("table.", "sql-client.", "__table.")


_MODE = "execution.runtime-mode"
_MODES = {"batch": True, "streaming": False}


class SqlDialect(enum.IntEnum):
    """The dialects of SQL: there is one."""

    DEFAULT = 0
    HIVE = 1


class TableConfig:
    """The options of a table environment.

    >>> config = TableConfig().set("table.exec.state.ttl", "1 h").set("table.local-time-zone", "Europe/Vienna")
    >>> config.option("table.exec.state.ttl"), config.get_local_timezone(), config.get("table.dml-sync", "unset")
    (3600000, 'Europe/Vienna', 'unset')
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        self._values: dict[str, str] = {}
        self._configuration = configuration if configuration is not None else Configuration()
        self.batch = False
        """True if queries run as batches."""
        self._initial = False

    def begin(self, batch: bool) -> None:
        """Say if queries run as batches until ``execution.runtime-mode`` is set."""
        self.batch = self._initial = batch

    @staticmethod
    def get_default() -> TableConfig:
        """Return a configuration without settings."""
        return TableConfig()

    def set(self, key: str, value: Any) -> TableConfig:
        """Set an option; raises ``InvalidConfiguration`` for an unknown key or a value that does not fit.

        >>> TableConfig().set("table.exec.state.tll", "1 h")
        Traceback (most recent call last):
        ...
        funken.errors.InvalidConfiguration: option 'table.exec.state.tll' is unknown. Did you mean 'table.exec.state.ttl'?
        """
        check_kind(key, str, "the name of an option")
        name = _RENAMED.get(key, key)
        if not name.startswith(_OWN):
            self._configuration.set(name, value)
            if name == _MODE and str(value).lower() in _MODES:
                self.batch = _MODES[str(value).lower()]
            return self
        if name in _OPTIONS:
            _parsed(name, value)
        elif not is_option(name) and not name.startswith("__"):
            near = nearest(name)
            hint = f"Did you mean {near!r}?" if near else f"Known options: {', '.join(_OPTIONS)}."
            raise InvalidConfiguration(f"option {name!r} is unknown. {hint}")
        if name == "table.local-time-zone":
            _zone(str(value))
        self._values[name] = str(value)
        return self

    def get(self, key: str, default_value: str | None = None) -> str | None:
        """Return the value of an option, as text; ``default_value`` if it is not set."""
        name = _RENAMED.get(key, key)
        if name.startswith(_OWN):
            found = self._given(name)
            return default_value if found is None else found
        return str(self._configuration.to_dict()[name]) if self._configuration.contains_key(name) else default_value

    def _given(self, name: str) -> str | None:
        """Return an option of tables: here, or in the options of the job, which may be changed directly."""
        if name in self._values:
            return self._values[name]
        job = self._configuration.to_dict()
        names = [name, *(older for older, newer in _RENAMED.items() if newer == name)]
        return next((str(job[each]) for each in names if each in job), None)

    def option(self, key: str) -> Any:
        """Return an option's value, parsed, or its default (durations: ms); raises ``KeyError`` for one that is not read."""
        parse, default = _OPTIONS[key]
        found = self._given(key)
        return default if found is None else parse(found)

    def reset(self, key: str | None = None) -> None:
        """Forget the setting of an option, or all.

        >>> config = TableConfig().set("table.dml-sync", True)
        >>> config.reset("table.dml-sync")
        >>> config.option("table.dml-sync")
        False
        """
        if key in {None, _MODE}:
            self.batch = self._initial
        if key is None:
            self._values.clear()
        elif key.startswith(_OWN):
            self._values.pop(_RENAMED.get(key, key), None)
            self._configuration.remove_config(key)
        else:
            self._configuration.remove_config(key)

    def to_map(self) -> dict[str, str]:
        """Return the options that are set, by key, also those of the job."""
        return {**{key: str(value) for key, value in self._configuration.to_dict().items()}, **self._values}

    def get_configuration(self) -> Configuration:
        """Return the options of the job; changes to it take effect."""
        return self._configuration

    def add_configuration(self, configuration: Configuration | Mapping[str, Any]) -> TableConfig:
        """Take over all options of a configuration."""
        values = configuration.to_dict() if isinstance(configuration, Configuration) else configuration
        for key, value in values.items():
            self.set(key, value)
        return self

    # ---- PyFlink's accessors

    def get_local_timezone(self) -> str:
        """Return the time zone of the session: TIMESTAMP_LTZ is shown in it, and days begin by it."""
        name: str = self.option("table.local-time-zone")
        return _system_zone() if name == "default" else name

    def set_local_timezone(self, timezone_id: str) -> TableConfig:
        """Set the time zone of the session."""
        return self.set("table.local-time-zone", timezone_id)

    def get_idle_state_retention(self) -> datetime.timedelta:
        """Return the lifetime of unchanged state; zero: for ever.

        >>> TableConfig().set_idle_state_retention(datetime.timedelta(hours=1)).get_idle_state_retention()
        datetime.timedelta(seconds=3600)
        """
        return datetime.timedelta(milliseconds=self.option("table.exec.state.ttl"))

    def set_idle_state_retention(self, duration: datetime.timedelta) -> TableConfig:
        """Set the lifetime of unchanged state."""
        return self.set("table.exec.state.ttl", written_ms(duration // datetime.timedelta(milliseconds=1)))

    def get_sql_dialect(self) -> SqlDialect:
        """Return the dialect."""
        return SqlDialect.DEFAULT

    def set_sql_dialect(self, sql_dialect: SqlDialect | str) -> TableConfig:
        """Set the dialect: there is one."""
        if sql_dialect != SqlDialect.DEFAULT and str(sql_dialect).lower() != "default":
            name = sql_dialect.name.lower() if isinstance(sql_dialect, SqlDialect) else sql_dialect
            raise InvalidConfiguration(f"SQL dialect {name!r} is not supported; there is 'default' only.")
        return self.set("table.sql-dialect", "default")

    def get_python_executable(self) -> str | None:
        """Return the interpreter for functions, if it is set; functions run where the job runs."""
        return self.get("python.executable")

    def set_python_executable(self, python_exec: str) -> TableConfig:
        """Set the interpreter for functions."""
        return self.set("python.executable", python_exec)

    def get_max_generated_code_length(self) -> int:
        """Return an option of Flink's code generator, which Funken does not have."""
        return int(self.get("table.generated-code.max-length", "4000") or 4000)

    def set_max_generated_code_length(self, max_generated_code_length: int) -> TableConfig:
        """Set an option of Flink's code generator; it has no effect."""
        return self.set("table.generated-code.max-length", max_generated_code_length)

    def __repr__(self) -> str:
        return f"TableConfig({self.to_map()})"


def _parsed(key: str, value: Any) -> Any:
    parse, default = _OPTIONS[key]
    try:
        parsed = parse(value)
    except (ValueError, TypeError) as wrong:
        raise InvalidConfiguration(f"option {key!r}: {wrong}") from None
    if parse is duration_ms and is_bare(value) and not 0 < (default or 0) <= _SHORT:
        warn(in_ms(f"option {key!r} is", parsed))
    return parsed


def _zone(name: str) -> None:
    if name == "default" or name.startswith(("GMT", "UTC", "+", "-")):
        return
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise InvalidConfiguration(
            f"option 'table.local-time-zone': {name!r} is no time zone. Use a name such as 'Europe/Vienna' or 'UTC'."
        ) from None


def _system_zone() -> str:
    """Return the name of the machine's time zone."""
    named = os.environ.get("TZ", "").lstrip(":")
    if named:
        return named
    link = os.path.realpath("/etc/localtime")
    name = link.partition("zoneinfo/")[2]
    if name:
        return "UTC" if name in ("Etc/UTC", "Etc/UCT", "Universal") else name
    file = Path("/etc/timezone")
    return file.read_text().strip() if file.exists() else (time.tzname[0] if time.tzname[0] == "UTC" else "UTC")

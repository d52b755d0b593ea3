"""The table environment of the frames of a process: its options before it exists, its catalogs afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from funken.config import Configuration
from funken.table.catalog import Catalog
from funken.table.descriptors import CatalogDescriptor
from funken.table.environment import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from funken.table.statement_set import StatementSet


class FrameConfig:
    """Options of the table environment that the next frame creates.

    >>> set_table_environment(None)
    >>> FrameConfig().set("pipeline.name", "orders").get("pipeline.name")
    'orders'
    """

    def __init__(self) -> None:
        self._options: dict[str, str] = {}

    def set(self, key: str, value: str) -> FrameConfig:
        """Set an option; raises ``RuntimeError`` if the environment exists, since it reads some options only once."""
        for what, one in (("key", key), ("value", value)):
            if not isinstance(one, str):
                raise TypeError(f"{what} must be a string, but config.set() got {one!r}. Write '4' instead of 4.")
        if get_table_environment() is not None:
            raise RuntimeError(
                f"DataFrame configuration must be set before the table environment exists, but {key!r} comes later. Set it by "
                "get_table_environment().get_config(), or call set_table_environment(None) first."
            )
        self._options[key] = value
        return self

    def get(self, key: str, default: str | None = None) -> str | None:
        """Return an option of the environment if there is one, else of the next one."""
        if not isinstance(key, str):
            raise TypeError(f"key must be a string, but config.get() got {key!r}.")
        if default is not None and not isinstance(default, str):
            raise TypeError(f"default must be a string or None, but config.get() got {default!r}.")
        environment = get_table_environment()
        if environment is None:
            return self._options.get(key, default)
        found: str | None = environment.get_config().get(key, default)
        return found

    def settings(self) -> EnvironmentSettings:
        """Return the settings of the next environment."""
        options = dict(self._options)
        catalog, database = (
            options.pop("table.builtin-catalog-name", None),
            options.pop("table.builtin-database-name", None),
        )
        builder = EnvironmentSettings.new_instance().with_configuration(Configuration(options))
        if catalog is not None:
            builder.with_built_in_catalog_name(catalog)
        if database is not None:
            builder.with_built_in_database_name(database)
        return builder.build()


class _Session:
    """The environment of the process, if there is one."""

    environment: TableEnvironment | None = None
    creates: Callable[[EnvironmentSettings], TableEnvironment] = staticmethod(
        lambda settings: StreamTableEnvironment.create(environment_settings=settings)
    )


config = FrameConfig()


def set_table_environment(t_env: TableEnvironment | None) -> None:
    """Make a table environment that of all frames from now on; ``None`` forgets it.

    >>> set_table_environment(None)
    >>> get_table_environment() is None
    True
    """
    if t_env is not None and not isinstance(t_env, TableEnvironment):
        raise TypeError(f"t_env must be a StreamTableEnvironment or None, but got a {type(t_env).__name__}.")
    _Session.environment = t_env


def get_table_environment() -> TableEnvironment | None:
    """Return the table environment of the process; ``None`` if there is none yet."""
    return _Session.environment


def get_or_create_table_environment() -> TableEnvironment:
    """Return the table environment of the process, and create it with the options of ``config`` if there is none."""
    if _Session.environment is None:
        _Session.environment = _Session.creates(config.settings())
    return _Session.environment


def create_environments_with(creates: Callable[[EnvironmentSettings], TableEnvironment]) -> None:
    """Let a function create the environment of the process: that of the names under which a program imports frames."""
    _Session.creates = staticmethod(creates)


def create_statement_set() -> StatementSet:
    """Return a set of writes that become one job: pass it to ``write_...(statement_set=...)``, then ``execute()`` it."""
    found: StatementSet = get_or_create_table_environment().create_statement_set()
    return found


# ---- catalogs


def nonempty(value: Any, what: str) -> str:
    """Return a text; raises ``TypeError`` for anything else, ``ValueError`` for an empty one."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, but got {value!r}.")
    if not value.strip():
        raise ValueError(f"{what} must not be empty.")
    return value


def texts(options: Any) -> dict[str, str]:
    """Return options as a dict; raises for those that are no texts."""
    if not isinstance(options, Mapping):
        raise TypeError(f"options must be a dict of string keys and values, but got {options!r}.")
    for key, value in options.items():
        if not isinstance(key, str):
            raise TypeError(f"option keys must be strings, but got {key!r}.")
        if not key:
            raise ValueError("option keys must not be empty.")
        if not isinstance(value, str):
            raise TypeError(f"option {key!r} must have a string value, but has {value!r}.")
    return dict(options)


def create_catalog(name: str, options: Mapping[str, str]) -> None:
    """Create a catalog, as ``CREATE CATALOG name WITH (options)`` does; the option ``type`` names its type.

    Raises ``ValueError`` if there is one of that name, or the options are not those of the kind.
    """
    nonempty(name, "name")
    texts(options)
    environment = get_or_create_table_environment()
    if name in environment.list_catalogs():
        raise ValueError(f"a catalog named {name!r} already exists. Choose another name, or drop it with DROP CATALOG.")
    environment.create_catalog(name, CatalogDescriptor.of(name, dict(options)))


def get_catalog(name: str) -> Catalog | None:
    """Return a catalog; ``None`` if there is none of that name."""
    return get_or_create_table_environment().get_catalog(nonempty(name, "name"))


def use_catalog(name: str) -> None:
    """Make a catalog the current one, and its default database with it."""
    environment = get_or_create_table_environment()
    if nonempty(name, "name") not in environment.list_catalogs():
        raise ValueError(f"no catalog named {name!r} exists. There are: {', '.join(environment.list_catalogs())}.")
    environment.use_catalog(name)


def get_current_catalog() -> str:
    """Return the name of the current catalog."""
    return get_or_create_table_environment().get_current_catalog()


def list_catalogs() -> list[str]:
    """Return the names of the catalogs, sorted."""
    return get_or_create_table_environment().list_catalogs()


def use_database(name: str) -> None:
    """Make a database of the current catalog the current one."""
    environment = get_or_create_table_environment()
    if nonempty(name, "name") not in environment.list_databases():
        raise ValueError(
            f"no database named {name!r} exists in catalog {environment.get_current_catalog()!r}. It has: "
            f"{', '.join(environment.list_databases())}."
        )
    environment.use_database(name)


def get_current_database() -> str:
    """Return the name of the current database."""
    return get_or_create_table_environment().get_current_database()


def list_databases() -> list[str]:
    """Return the names of the databases of the current catalog, sorted."""
    return get_or_create_table_environment().list_databases()

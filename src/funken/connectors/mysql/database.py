"""The connection to a server of MySQL or MariaDB, and explanations of its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from funken import extras
from funken.connectors.sql.database import SqlDatabase, SqlProblem
from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration

_REMEDIES = {  # by the number of the server's error
    1040: "raise max_connections, or lower the parallelism",
    1044: "grant this user access to the database",
    1045: "correct user and password, and grant REPLICATION SLAVE if changes are captured",
    1049: "create the database, or correct its name",
    1054: "correct the columns, or add it to the table",
    1062: "correct the records, or the constraints of the table",
    1142: "grant it to this user",
    1146: "create the table, or correct its name (with its database)",
    1205: "end the transaction that holds the lock",
    1213: "run it again",
    1227: "grant it to this user; change data capture needs REPLICATION SLAVE and REPLICATION CLIENT (MariaDB: BINLOG MONITOR)",
    1236: "start from the newest checkpoint, or without one; keep the binary logs longer (binlog_expire_logs_seconds)",
    1264: "convert the values to the column's type",
    1366: "convert the values to the column's type",
    1406: "convert the values to the column's type",
    2003: "start the server, or correct host and port",
    2005: "correct the host",
}
_TRANSIENT = frozenset({1040, 1053, 1158, 1159, 1160, 1161, 1205, 1213, 2002, 2003, 2006, 2013, 2055, 0})
_LOST = "start the server, or see why it ended the connection"


def pymysql(module: str = "pymysql") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required(module, "mysql", "the MySQL connectors need PyMySQL and mysql-replication")


@dataclass(frozen=True)
class MySqlDatabase(SqlDatabase):
    """A server and the database that names without one belong to.

    ``options`` are further arguments of PyMySQL's ``connect``, such as ``{"ssl_ca": "/etc/ca.pem"}``.

    >>> MySqlDatabase("db.example", "ada", "secret", "shop")
    MySqlDatabase('ada@db.example:3306/shop')
    >>> MySqlDatabase("db.example", "ada", port="3306")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: the port of a MySqlDatabase is '3306', which is no number between 1 and 65535; correct it.
    """

    host: str
    user: str
    password: str = field(default="", repr=False)
    database: str = ""
    port: int = 3306
    options: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    placeholder = "%s"

    def __post_init__(self) -> None:
        """Check the port."""
        if not isinstance(self.port, int) or not 0 < self.port < 65_536:
            raise InvalidConfiguration(
                f"the port of a MySqlDatabase is {self.port!r}, which is no number between 1 and 65535; correct it."
            )

    def __repr__(self) -> str:
        return f"MySqlDatabase('{self.user}@{self.host}:{self.port}/{self.database}')"

    def settings(self, name: str = "funken", **more: Any) -> dict[str, Any]:
        """Return the arguments of PyMySQL's ``connect``; times of TIMESTAMP columns are of UTC."""
        return {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "database": self.database or None,
            "charset": "utf8mb4",
            "connect_timeout": 10,
            "program_name": name[:63],
            "init_command": "SET time_zone = '+00:00'",
            **self.options,
            **more,
        }

    def connect(self, name: str = "funken", **more: Any) -> Any:
        """Connect; ``name`` is seen in ``performance_schema.session_connect_attrs``."""
        try:
            return pymysql().connect(**self.settings(name, **more))
        except RuntimeError as error:  # the client lacks what the server's way to log in takes
            raise EnvironmentNotReady(
                f"{self!r} cannot be reached: {error}; install it with: pip install 'funken[mysql]'."
            ) from error

    def quote(self, identifier: str) -> str:
        """Return a name in backticks; a percent sign would be a placeholder.

        >>> MySqlDatabase("db", "ada").quote("shop.the `best` 10%")
        '`shop`.`the ``best`` 10%%`'
        """
        parts = [part.replace("`", "``").replace("%", "%%") for part in identifier.split(".")]
        return ".".join(f"`{part}`" for part in parts)

    def upsert(self, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
        """Return the statement that inserts a row, or replaces the one with the same key.

        >>> MySqlDatabase("db", "ada").upsert("totals", ["item", "total"], ["item"])
        'INSERT INTO `totals` (`item`, `total`) VALUES (%s, %s) ON DUPLICATE KEY UPDATE `total` = VALUES(`total`)'
        """
        return self.upsert_on_duplicate(table, columns, keys)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Those of the client."""
        return (pymysql("pymysql.err").Error,)

    def problem(self, error: Exception) -> SqlProblem:
        """Return the meaning of an error by its number; one without is of the connection."""
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1] if len(error.args) > 1 else error).strip().splitlines() or [type(error).__name__]
        default = _LOST if number in _TRANSIENT else "see MySQL's message"
        remedy = _REMEDIES.get(number, default)
        return SqlProblem(f"{self!r}: {text[0] or 'the connection is lost'} ({number})", remedy, number in _TRANSIENT)

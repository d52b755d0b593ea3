"""A real MariaDB on loopback, for tests: the programs of Debian's package, or those on the path."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

from tests.support.kafka import free_port

READY_S = 120
LOGS = {"log_bin": "bin", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}


def mariadb_programs():
    """The server and the script that makes its folder, or why they are not there."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    names = ("mariadbd", "mariadb-install-db", "my_print_defaults")
    server, install, defaults = (shutil.which(name, path=path) for name in names)
    if server is None or install is None or defaults is None:
        return None, "MariaDB is not there (Debian, Ubuntu: apt-get install mariadb-server-core mariadb-client)"
    return (server, install), ""


class MariaServer:
    """One server on a free port, with a folder of its own."""

    def __init__(self, programs, **settings):
        self._server, install = programs
        self.folder = Path(tempfile.mkdtemp(prefix="funken-mariadb-"))
        self.port = free_port()
        self._settings = {"server_id": 1, "innodb_flush_log_at_trx_commit": 1, "sync_binlog": 1} | LOGS | settings
        self._process = None
        user = ["--user=root"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [install, "--no-defaults", *user, f"--datadir={self._data}", "--auth-root-authentication-method=normal",
             "--skip-test-db", "--skip-name-resolve"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=READY_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    @property
    def _data(self):
        return self.folder / "data"

    def start(self):
        user = ["--user=root"] if os.geteuid() == 0 else []
        given = {
            "datadir": self._data, "port": self.port, "bind-address": "127.0.0.1", "socket": self.folder / "socket",
            "pid-file": self.folder / "pid", "innodb_buffer_pool_size": "32M", "skip-name-resolve": 1,
            "character-set-server": "utf8mb4",
        } | self._settings  # fmt: skip
        arguments = [f"--{name}={value}" for name, value in given.items() if value is not None]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._server, "--no-defaults", *user, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(Exception), contextlib.closing(self.connect(database=None)) as connection:
                connection.cursor().execute("CREATE DATABASE IF NOT EXISTS shop")
                return self
            log = (self.folder / "log").read_text(errors="replace")
            assert self._process.poll() is None and time.monotonic() < deadline, log[-3000:]
            time.sleep(0.05)

    def kill(self):
        """End it at once: it recovers at the next start."""
        self._process.kill()
        self._process.wait(60)

    def remove(self):
        """Stop it and delete its data."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- what tests do with it

    def connect(self, database="shop"):
        import pymysql

        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database=database, charset="utf8mb4", autocommit=True,
            connect_timeout=5,
        )  # fmt: skip

    def execute(self, statement, parameters=None):
        """Execute a statement; return its rows, if it has some."""
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement, parameters)
            return list(cursor.fetchall()) if cursor.description else None

    def table(self, columns, rows=(), more=""):
        """Make a table with a name of its own."""
        name = f"t_{uuid.uuid4().hex[:8]}"
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"CREATE TABLE {name} ({columns}) {more}")
            if rows:
                marks = ", ".join(["%s"] * len(rows[0]))
                cursor.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return name

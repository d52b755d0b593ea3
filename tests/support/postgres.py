"""A real PostgreSQL on loopback, for tests: the binaries of Debian's package, or those on the path.

The server refuses to run as root, so root starts it as the user ``postgres``, which the package makes.
"""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from tests.support.kafka import free_port

READY_S = 240
PASSWORD = "open-sesame"


def runuser():
    """What starts a program as another user; it is where root's own programs are, which a path may leave out."""
    return shutil.which("runuser", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))


def postgres_binaries():
    """The folder of ``initdb`` and ``pg_ctl``, or why there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    folder = found[-1].parent if found else Path(on_path).parent if on_path else None
    if folder is None:
        return None, "PostgreSQL is not there (Debian, Ubuntu: apt-get install postgresql)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return None, "PostgreSQL does not run as root, and there is no user 'postgres' (apt-get install postgresql)"
        if runuser() is None:
            return None, "PostgreSQL does not run as root, and there is no runuser (apt-get install util-linux)"
    return folder, ""


class PostgresServer:
    """One server on a free port, and a folder of its own: pytest's are closed to other users."""

    def __init__(self, binaries, **settings):
        self.folder = Path(tempfile.mkdtemp(prefix="funken-postgres-"))
        self._binaries, self.port = binaries, free_port()
        self.conninfo = f"host=127.0.0.1 port={self.port} user=funken dbname=postgres"
        given = {
            "max_prepared_transactions": 64,
            "wal_level": "logical",
            "fsync": "off",
            "max_connections": 100,
        } | settings
        self._user = [runuser(), "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self._user:
            shutil.chown(self.folder, "postgres")
        self._run(
            "initdb", "-D", self._data, "-A", "trust", "-U", "funken", "--no-sync", "-E", "UTF8", "--locale", "C.UTF-8"
        )
        given |= {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": ""}
        lines = "".join(f"{name} = '{value}'\n" for name, value in given.items())
        with open(self._data / "postgresql.conf", "a") as file:
            file.write(lines)
        access = "host guarded all 127.0.0.1/32 scram-sha-256\n" + (self._data / "pg_hba.conf").read_text()
        (self._data / "pg_hba.conf").write_text(access)

    @property
    def _data(self):
        return self.folder / "data"

    def _run(self, program, *arguments):
        done = subprocess.run(
            [*self._user, self._binaries / program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=READY_S + 60, check=False, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    def start(self):
        log = self.folder / "log"
        arguments = ["-D", str(self._data), "-l", str(log), "-t", str(READY_S), "-w", "start"]
        output = self.folder / "pg_ctl.log"
        with open(output, "w") as file:  # no pipe: the server would hold it open
            done = subprocess.run(
                [*self._user, self._binaries / "pg_ctl", *arguments], stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, timeout=READY_S + 60, check=False, cwd="/",
            )  # fmt: skip
        assert done.returncode == 0, output.read_text() + (
            log.read_text(errors="replace")[-2000:] if log.exists() else ""
        )
        return self

    def stop(self, mode="fast"):
        with contextlib.suppress(AssertionError):
            self._run("pg_ctl", "-D", self._data, "-m", mode, "-t", "60", "-w", "stop")

    def remove(self):
        """Stop it and delete its data."""
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self):
        """End it at once: what is not in its log is lost, and it recovers at the next start."""
        self.stop("immediate")

    # ---- what tests do with it

    def connect(self):
        import psycopg

        return psycopg.connect(self.conninfo, autocommit=True)

    def execute(self, statement, parameters=None):
        """Execute a statement; return its rows, if it has some."""
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else None

    def table(self, columns, rows=()):
        """Make a table with a name of its own."""
        name = f"t_{uuid.uuid4().hex[:8]}"
        with contextlib.closing(self.connect()) as connection:
            connection.execute(f"CREATE TABLE {name} ({columns})")
            if rows:
                marks = ", ".join(["%s"] * len(rows[0]))
                connection.cursor().executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        return name

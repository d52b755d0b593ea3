"""A real server of MongoDB's protocol on loopback, for tests: FerretDB with SQLite, as Go builds it."""

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

from funken.io.temporary import cache_folder
from tests.support.kafka import free_port

VERSION = "v1.24.2"
READY_S, BUILD_S = 60, 900
# The program of FerretDB itself needs files that only its repository has; its package for embedding does not.
MAIN = """package main

import (
	"context"
	"os"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: os.Args[1]},
		Handler:   "sqlite",
		SQLiteURL: os.Args[2],
	})
	if err != nil {
		panic(err)
	}
	panic(server.Run(context.Background()))
}
"""


def ferretdb_program():
    """The server's program, built once into Funken's part of the user's cache, or why there is none."""
    home = cache_folder() or Path(tempfile.gettempdir(), "funken")
    program = home / "services" / f"ferretdb-{VERSION}"
    if program.is_file():
        return program, ""
    if shutil.which("go") is None:
        return None, "FerretDB is not there, and Go to build it neither (Debian, Ubuntu: apt-get install golang)"
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as work:
        Path(work, "main.go").write_text(MAIN)
        for run in (
            ["go", "mod", "init", "ferretdb"],
            ["go", "get", f"github.com/FerretDB/FerretDB/ferretdb@{VERSION}"],
            ["go", "build", "-o", "ferretdb", "."],
        ):
            done = subprocess.run(
                run,
                cwd=work,
                env=os.environ | {"CGO_ENABLED": "0"},
                capture_output=True,
                text=True,
                timeout=BUILD_S,
                check=False,
            )
            if done.returncode:
                return None, f"Go cannot build FerretDB: {done.stderr.strip().splitlines()[-1:]}"
        os.replace(Path(work, "ferretdb"), program)
    return program, ""


class FerretServer:
    """One server on a free port, with a folder of its own."""

    def __init__(self, program, folder):
        self.folder, self.port = Path(folder), free_port()
        self.uri = f"mongodb://127.0.0.1:{self.port}/"
        (self.folder / "data").mkdir()
        self._command = [str(program), f"127.0.0.1:{self.port}", f"file:{self.folder}/data/"]
        self._process = None

    def start(self):
        import pymongo

        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_S
        while True:
            try:
                with pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=500) as client:
                    client.admin.command("ping")
                return self
            except pymongo.errors.PyMongoError:
                log = (self.folder / "log").read_text(errors="replace")
                assert self._process.poll() is None and time.monotonic() < deadline, log[-3000:]
                time.sleep(0.05)

    def kill(self):
        """End it at once."""
        self._process.kill()
        self._process.wait(60)

    def stop(self):
        """End it by its process id."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def collection(self, documents=()):
        """Make a collection with a name of its own."""
        import pymongo

        name = f"c_{uuid.uuid4().hex[:8]}"
        with pymongo.MongoClient(self.uri) as client:
            client.shop.create_collection(name)
            if documents:
                client.shop[name].insert_many(list(documents))
        return name

    def documents(self, name):
        """Return the documents of a collection, by ``_id``."""
        import pymongo

        with pymongo.MongoClient(self.uri, tz_aware=True) as client:
            return list(client.shop[name].find({}).sort("_id", 1))

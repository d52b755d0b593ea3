"""A real Redis on loopback, for tests: the program of Debian's package, or the one on the path."""

import contextlib
import shutil
import subprocess
import time

from tests.support.kafka import free_port

PASSWORD = "open-sesame"
READY_S = 30


def redis_program():
    """The server's program, or why there is none."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return found, "" if found else "Redis is not there (Debian, Ubuntu: apt-get install redis-server)"


class RedisProcess:
    """One server on a free port; what it holds is kept in its folder, so that it survives a kill."""

    def __init__(self, program, folder, password=""):
        self._program, self._folder, self._password = program, folder, password
        self.port = free_port()
        self._process = None

    @property
    def url(self):
        return f"redis://{f':{self._password}@' if self._password else ''}127.0.0.1:{self.port}/0"

    def start(self):
        import redis

        options = {
            "port": self.port, "bind": "127.0.0.1", "dir": self._folder, "appendonly": "yes", "appendfsync": "always",
            "save": "", "daemonize": "no",
        } | ({"requirepass": self._password} if self._password else {})  # fmt: skip
        arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen([self._program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(redis.RedisError), contextlib.closing(self.client()) as client:
                client.ping()
                return self
            assert self._process.poll() is None and time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.02)

    def client(self):
        import redis

        return redis.Redis.from_url(self.url, socket_timeout=20)

    def kill(self):
        self._process.kill()
        self._process.wait(20)

    def stop(self):
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

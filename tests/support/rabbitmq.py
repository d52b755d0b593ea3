"""A real RabbitMQ on loopback, for tests: the program of Debian's package, with a port mapper and a folder of its own."""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

from tests.support.kafka import free_port

USER, PASSWORD = "ada", "open-sesame"
POWERLESS, WRITER = "nemo", "scribe"
"""Users that may do nothing, and only write."""
READY_S = 120
_PLACES = (
    "/usr/lib/rabbitmq/bin/rabbitmq-server",
    "/usr/local/sbin/rabbitmq-server",
    "/opt/rabbitmq/sbin/rabbitmq-server",
)


def rabbitmq_programs():
    """The server's script and the port mapper, or why they are not there."""
    # The script on the path may be a wrapper that changes the user; the one beside the library starts the server as it is.
    script = next((place for place in _PLACES if os.access(place, os.X_OK)), None) or shutil.which("rabbitmq-server")
    mapper = shutil.which("epmd")
    if script is None or mapper is None:
        return None, "RabbitMQ is not there (Debian, Ubuntu: apt-get install rabbitmq-server)"
    return (script, mapper), ""


class RabbitProcess:
    """One server on free ports; what it holds is kept in its folder, so that it survives a kill."""

    def __init__(self, programs, folder, **rabbit):
        self._script, self._mapper = programs
        self._folder, self._rabbit = Path(folder), {"disk_free_limit": 10_000_000} | rabbit
        self.port, self._ports = free_port(), (free_port(), free_port())
        #: another port, with TLS, where there is an openssl to make a certificate
        self.tls_port = self._certificate()
        self._process = self._mapping = None

    def url(self, user=USER, password=PASSWORD, vhost="/"):
        return f"amqp://{user}:{password}@127.0.0.1:{self.port}/{quote(vhost, safe='')}"

    def _certificate(self):
        if shutil.which("openssl") is None:
            return None
        self.ca = self._folder / "certificate.pem"
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        make += [
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(self._folder / "key.pem"),
            "-out",
            str(self.ca),
        ]
        subprocess.run(make, check=True, capture_output=True, timeout=60)
        return free_port()

    def _configure(self):
        lines = [f"listeners.tcp.1 = 127.0.0.1:{self.port}", f"load_definitions = {self._folder / 'definitions.json'}"]
        lines += [
            "log.console = true",
            "log.file = false",
            "vm_memory_high_watermark.absolute = 400MB",
        ]
        if self.tls_port:
            lines += [f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}", f"ssl_options.cacertfile = {self.ca}"]
            lines += [f"ssl_options.certfile = {self.ca}", f"ssl_options.keyfile = {self._folder / 'key.pem'}"]
        (self._folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        settings = ", ".join(f"{{{name}, {value}}}" for name, value in self._rabbit.items())
        (self._folder / "advanced.config").write_text(f"[{{rabbit, [{settings}]}}].\n")
        (self._folder / "plugins").write_text("[].\n")

        def of(user, configure, write, read):
            return {"user": user, "vhost": "/", "configure": configure, "write": write, "read": read}

        definitions = {
            "vhosts": [{"name": "/"}, {"name": "closed"}],
            "users": [
                {"name": user, "password_hash": _hashed(PASSWORD), "tags": ""} for user in (USER, POWERLESS, WRITER)
            ],
            "permissions": [of(USER, ".*", ".*", ".*"), of(POWERLESS, "^$", "^$", "^$"), of(WRITER, "^$", ".*", "^$")],
        }
        (self._folder / "definitions.json").write_text(json.dumps(definitions))

    def start(self):
        import pika

        self._configure()
        mapper, distribution = self._ports
        folder = self._folder
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))
        } | {
            "HOME": str(folder), "ERL_EPMD_PORT": str(mapper), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"funken{self.port}@localhost", "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null", "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"), "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"), "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes the server, instead of waiting for it
        }  # fmt: skip
        with (folder / "log").open("ab") as log:
            if self._mapping is None:
                mapping = [self._mapper, "-port", str(mapper), "-address", "127.0.0.1"]
                self._mapping = subprocess.Popen(mapping, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                self._await(lambda: _answers(mapper))
            self._process = subprocess.Popen(
                [self._script], env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

        def ready():
            with contextlib.suppress(pika.exceptions.AMQPError, OSError), self.client():
                return True
            return False

        # A client that comes too early is told so in the log, and waits for longer than one that looks first.
        self._await(lambda: _answers(self.port) and ready())
        return self

    def _await(self, holds):
        deadline = time.monotonic() + READY_S
        while not holds():
            processes = (self._mapping, self._process)
            there = all(process is None or process.poll() is None for process in processes)
            assert there and time.monotonic() < deadline, (self._folder / "log").read_text()[-5000:]
            time.sleep(0.05)

    @contextlib.contextmanager
    def client(self):
        """A channel for the test itself."""
        import pika

        connection = pika.BlockingConnection(pika.URLParameters(self.url()))
        try:
            yield connection.channel()
        finally:
            if connection.is_open:
                connection.close()

    def kill(self):
        self._process.kill()
        self._process.wait(20)

    def stop(self):
        """End the server, then the port mapper: both are children of this process."""
        for process in (self._process, self._mapping):
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(20)
        self._mapping = None


def _answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _hashed(password):
    """As RabbitMQ keeps passwords: four bytes of salt, and the hash of both."""
    salt = b"salt"
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()

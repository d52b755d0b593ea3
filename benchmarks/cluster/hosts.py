"""Hosts on one machine: network namespaces with addresses of their own, joined by a bridge; each with its own /tmp and host name.

What all hosts share is the folder ``/tmp/shared``, as a file server would give it. Needs root on Linux. A host can be killed (its
processes end, connections are reset) or cut off (its link goes down, nobody is told, and its processes end).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

_ENTER = """
hostname "$1"; mount --make-rprivate /
mount --bind "$2/shared" "$2/$1/shared" && mount --rbind "$2/$1" /tmp
shift 2; cd /tmp && exec "$@"
"""
SHARED = Path("/tmp/shared")
"""Where the shared folder is, for who is in a host."""


def unavailable() -> str:
    """Return why there can be no hosts on this machine; empty if there can."""
    name = f"fk{os.getpid() % 100_000}x"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "there is no 'ip' (Debian, Ubuntu: apt-get install iproute2)"
    if made.returncode:
        return made.stderr.strip()
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return ""


class Network:
    """The bridge, and the hosts at it; ``close`` removes them and what runs in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.shared.mkdir()
        self._bridge = f"fk{os.getpid() % 100_000}b"
        self.hosts: list[Host] = []
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("link", "set", self._bridge, "up")

    def host(self) -> Host:
        """Add a host."""
        made = Host(self, len(self.hosts) + 1, self._bridge)
        self.hosts.append(made)
        return made

    def close(self) -> None:
        """Remove all of it."""
        for host in self.hosts:
            host.close()
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._bridge)


class Host:
    """One host: a network namespace with one address."""

    def __init__(self, network: Network, number: int, bridge: str) -> None:
        self.name = f"host{number}"
        self.address = f"10.213.77.{number}"
        self._netns = f"{bridge[:-1]}h{number}"
        self._network = network
        self._started: list[subprocess.Popen[bytes]] = []
        self.tmp = network.folder / self.name
        (self.tmp / "shared").mkdir(parents=True)
        outer, inner = f"{self._netns}o", f"{self._netns}i"
        _ip("netns", "add", self._netns)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", self._netns)
        _ip("link", "set", outer, "master", bridge, "up")
        for command in (
            ("addr", "add", f"{self.address}/24", "dev", inner),
            ("link", "set", inner, "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", self._netns, *command)
        self._link = outer

    def start(self, log: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a process in this host, with ``SPARK_LOCAL_IP``; what it prints goes to a file in the shared folder."""
        enter = ["ip", "netns", "exec", self._netns, "unshare", "--mount", "--uts", "sh", "-c", _ENTER, "sh"]
        own = os.environ | {"SPARK_LOCAL_IP": self.address, "TMPDIR": "/tmp"} | environment
        with (self._network.shared / log).open("ab") as file:
            process = subprocess.Popen(
                [*enter, self.name, str(self._network.folder), *command],
                stdout=file, stderr=file, stdin=subprocess.DEVNULL, env=own, start_new_session=True,
            )  # fmt: skip
        self._started.append(process)
        return process

    def pids(self) -> list[int]:
        """Return the processes of this host."""
        found = subprocess.run(["ip", "netns", "pids", self._netns], capture_output=True, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]

    def kill(self) -> None:
        """End all that runs here; what is at the other end of a connection is told by the kernel."""
        for _ in range(20):
            left = self.pids()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self._started:
                process.poll()
            if not left:
                return
            time.sleep(0.05)

    def cut(self) -> None:
        """Take the host off the network, and end all that runs here: nobody else is told."""
        _ip("link", "set", self._link, "down")
        self.kill()

    def close(self) -> None:
        """Remove the host."""
        self.kill()
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("netns", "del", self._netns)
        with contextlib.suppress(subprocess.CalledProcessError):  # a moment after its namespace is gone, it is too
            _ip("link", "del", self._link)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)

"""Pods of manifests as containers, and as much of Kubernetes' API as Spark needs for its executors, which are pods too.

Each pod has an address of its own in a network that is made for the test, and the users, groups, volumes and secrets of its
manifest. Needs Podman or Docker, root, and the image.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

NAMESPACE = "funken"


class ContainerTool:
    """A command that runs containers, with the options that it needs on this machine."""

    def __init__(self, *command, options=()):
        self.command, self.options = command, options

    def __call__(self, *arguments, timeout=240):
        command = [*self.command, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    def run(self, *arguments):
        return self("run", *self.options, *arguments)


def container_tool(image):
    """The first tool that runs containers here, or why there is none."""
    found = next((tool for tool in ("podman", "docker") if shutil.which(tool)), None)
    if found is None:
        return None, "neither podman nor docker is installed"
    if os.geteuid() != 0:
        return None, "only root may give volumes the groups of pods"
    if ContainerTool(found)("image", "inspect", image).returncode:
        return None, f"there is no image {image}: {found} build -f deploy/docker/Dockerfile -t {image} ."
    # Where a process may not raise its limits, the tool's defaults are too high, and perhaps those of this process as well.
    limits = {"nofile": (resource.RLIMIT_NOFILE, 16384), "nproc": (resource.RLIMIT_NPROC, 4096)}
    lower = {name: min(bound, *(n for n in resource.getrlimit(of) if n >= 0)) for name, (of, bound) in limits.items()}
    own = [f"--ulimit={name}={limit}:{limit}" for name, limit in lower.items()]
    runtimes = [(), *([("--runtime", "runc")] if found == "podman" and shutil.which("runc") else [])]
    for runtime in runtimes:
        for options in ((), own):
            tool = ContainerTool(found, *runtime, options=options)
            done = tool.run("--rm", "--network", "none", "--entrypoint", "true", image)
            if not done.returncode:
                return tool, ""
    return None, f"{found} cannot run a container here: {done.stderr.strip()[-200:]}"


class Pod:
    """One container of a pod, and its description as the API shows it."""

    def __init__(self, kubelet, description, address):
        self.description = description
        self.name = description["metadata"]["name"]
        self.address = address
        self._kubelet = kubelet
        self.container = f"{kubelet.network}-{self.name}"
        self.started = threading.Event()
        self.error = ""

    def exit_code(self):
        """How the container has ended; ``None`` while it runs."""
        said = self._kubelet.do("inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", self.container)
        running, code = said.split()
        return None if running == "true" else int(code)

    def log(self):
        """What it has written."""
        done = self._kubelet.tool("logs", self.container)
        return done.stdout + done.stderr

    def kill(self, signal="KILL"):
        """End the container, as the node's failure would; its executors are collected."""
        self._kubelet.do("kill", "--signal", signal, self.container)

    def status(self):
        """What the API says of it."""
        if not self.started.is_set():
            return {"phase": "Pending", "podIP": self.address, "message": self.error}
        code = self.exit_code()
        state = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
        phase = "Running" if code is None else "Succeeded" if code == 0 else "Failed"
        name = self.description["spec"]["containers"][0]["name"]
        shown = {"name": name, "ready": code is None, "restartCount": 0, "image": "", "imageID": "", "state": state}
        return {"phase": phase, "podIP": self.address, "containerStatuses": [shown]}


class Kubelet:
    """Runs pods; ``api`` is where their Kubernetes is. ``volumes``: a folder for each name of a claim, secret or config map."""

    def __init__(self, tool, folder, volumes):
        self.tool, self._folder, self.volumes = tool, Path(folder), volumes
        self.network = f"funken-{uuid.uuid4().hex[:8]}"
        self.pods: dict[str, Pod] = {}
        self.services: dict[str, dict[str, str]] = {}
        """The labels of the pods that a service is for, by its name."""
        self.requests: list[str] = []
        self._next = 10
        self._lock = threading.RLock()
        self._server: ThreadingHTTPServer | None = None
        self.api = self.local = ""

    def do(self, *arguments):
        done = self.tool.run(*arguments[1:]) if arguments[0] == "run" else self.tool(*arguments)
        assert done.returncode == 0, f"{' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout.strip()

    def start(self):
        """Make the network, and serve the API at its gateway."""
        for _ in range(5):
            self._subnet = f"10.{random.randint(100, 250)}.{random.randint(0, 250)}"
            with contextlib.suppress(AssertionError):
                self.do("network", "create", "--subnet", f"{self._subnet}.0/24", self.network)
                break
        else:
            raise AssertionError(f"{self.tool.command[0]} makes no network")
        self._server = ThreadingHTTPServer(("0.0.0.0", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.api = f"http://{self._subnet}.1:{self._server.server_port}"
        self.local = (
            f"http://127.0.0.1:{self._server.server_port}"  # the network's address is there with its first container
        )
        return self

    def stop(self):
        """Remove every container and the network."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        for pod in self.pods.values():
            self.tool("rm", "--force", pod.container)
        self.tool("network", "rm", "--force", self.network)

    def address(self):
        with self._lock:
            self._next += 1
            return f"{self._subnet}.{self._next}"

    def run(self, description, address=None, hosts=None):
        """Start a pod: its init containers one after the other, then its container."""
        pod = Pod(self, description, address or self.address())
        with self._lock:
            self.pods[pod.name] = pod
        self._start(pod, hosts or {})
        return pod

    def schedule(self, description):
        """Start a pod when the config maps are there that it mounts: Spark makes those of a driver after its pod."""
        pod = Pod(self, description, self.address())
        with self._lock:
            self.pods[pod.name] = pod
        threading.Thread(target=self._schedule, args=(pod,), daemon=True).start()
        return pod

    def _schedule(self, pod):
        wanted = {
            each["configMap"]["name"] for each in pod.description["spec"].get("volumes", []) if "configMap" in each
        }
        end = time.monotonic() + 60
        while not wanted <= self.volumes.keys() and time.monotonic() < end:
            time.sleep(0.1)
        try:
            self._start(pod, self._hosts())
        except (AssertionError, KeyError, OSError) as error:
            pod.error = f"{type(error).__name__}: {error}"

    def _hosts(self):
        """The names of services, each with the address of a pod that it is for."""
        found = {}
        for name, selector in self.services.items():
            for pod in list(self.pods.values()):
                if selector.items() <= pod.description["metadata"].get("labels", {}).items():
                    found[f"{name}.{NAMESPACE}.svc"] = pod.address
        return found

    def _start(self, pod, hosts):
        spec = pod.description["spec"]
        volumes = {each["name"]: self._volume(each, spec) for each in spec.get("volumes", [])}
        for number, container in enumerate(spec.get("initContainers", [])):
            self._container(pod, container, volumes, hosts, "--rm", "--name", f"{pod.container}-init{number}")
        (container,) = spec["containers"]
        self._container(pod, container, volumes, hosts, "--detach", "--name", pod.container, "--ip", pod.address)
        pod.started.set()

    def _volume(self, volume, spec):
        group = spec.get("securityContext", {}).get("fsGroup")
        kind = next(key for key in volume if key != "name")
        given = volume[kind]
        if kind == "emptyDir":
            path = self._folder / f"{uuid.uuid4().hex[:8]}-{volume['name']}"
            path.mkdir()
            path.chmod(0o777)
        else:
            path = self.volumes[given.get("claimName") or given.get("secretName") or given["name"]]
            if "items" in given:
                path = self._named(path, given["items"])
        if group is not None:  # as Kubernetes does with a volume of a pod that has a group for files
            os.chown(path, -1, group)
            path.chmod(0o2775)
            for file in path.iterdir() if kind in ("secret", "configMap") else ():
                os.chown(file, 0, group)
                file.chmod(given.get("defaultMode", 0o644))
        return path

    def _named(self, path, items):
        """A folder with the files of a config map or secret that are wanted, by the names that are wanted."""
        folder = self._folder / f"{uuid.uuid4().hex[:8]}-{path.name}"
        for item in items:
            target = folder / item["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path / item["key"], target)
        folder.chmod(0o755)
        return folder

    def _container(self, pod, container, volumes, hosts, *options):
        values = {"status.podIP": pod.address, "metadata.name": pod.name}
        variables = {
            each["name"]: each["value"] if "value" in each else values[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in container.get("env", [])
        }

        def filled(words):
            for name, value in variables.items():
                words = [word.replace(f"$({name})", value) for word in words]
            return words

        spec = pod.description["spec"]
        context = spec.get("securityContext", {}) | container.get("securityContext", {})
        arguments = [
            "run",
            *options,
            "--network",
            self.network,
            "--cap-drop",
            "ALL",
            "--security-opt",
            "no-new-privileges",
        ]
        if "runAsUser" in context:
            arguments += ["--user", context["runAsUser"]]
        if "fsGroup" in context:
            arguments += ["--group-add", context["fsGroup"]]
        for name, address in hosts.items():
            arguments += ["--add-host", f"{name}:{address}"]
        for name, value in variables.items():
            arguments += ["--env", f"{name}={value}"]
        for mount in container.get("volumeMounts", []):
            mode = ":ro" if mount.get("readOnly") else ""
            arguments += ["--volume", f"{volumes[mount['name']]}:{mount['mountPath']}{mode}"]
        command = filled(container.get("command", []))
        if command:
            arguments += ["--entrypoint", command[0]]
        self.do(*arguments, container["image"], *command[1:], *filled(container.get("args", [])))

    def configure(self, description):
        """Make a config map."""
        name = description["metadata"]["name"]
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        for file, text in description.get("data", {}).items():
            (folder / file).write_text(text)
        self.volumes[name] = folder

    def forget(self, name):
        """Remove a pod, as who deletes it wants."""
        with self._lock:
            pod = self.pods.pop(name, None)
        if pod is not None:
            self.tool("rm", "--force", pod.container)

    def collect(self, owner):
        """Remove the pods of an owner that is gone, as Kubernetes does."""
        for pod in list(self.pods.values()):
            owners = pod.description["metadata"].get("ownerReferences", [])
            if any(each["name"] == owner for each in owners):
                self.forget(pod.name)

    def shown(self, pod):
        return pod.description | {"status": pod.status()}


def _handler(kubelet):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments):
            """Say nothing."""

        def _say(self, found, status=200):
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

        def _body(self):
            length = int(self.headers.get("content-length") or 0)
            return json.loads(self.rfile.read(length)) if length else None

        def _parts(self):
            path = urlsplit(self.path)
            kubelet.requests.append(f"{self.command} {path.path}")
            words = path.path.strip("/").split("/")  # api/v1/namespaces/NAMESPACE/KIND[/NAME]
            return words[4] if len(words) > 4 else "", words[5] if len(words) > 5 else "", parse_qs(path.query)

        def do_GET(self):
            kind, name, query = self._parts()
            if kind == "pods" and name:
                pod = kubelet.pods.get(name)
                self._say(*(({"kind": "Status", "code": 404}, 404) if pod is None else (kubelet.shown(pod),)))
                return
            wanted = dict(
                each.split("=", 1)
                for each in query.get("labelSelector", [""])[0].split(",")
                if "=" in each and "!=" not in each
            )
            items = [
                kubelet.shown(pod)
                for pod in list(kubelet.pods.values())
                if kind == "pods" and wanted.items() <= pod.description["metadata"].get("labels", {}).items()
            ]
            self._say({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})

        def do_POST(self):
            self._make(self._parts()[0], self._body(), 201)

        def _make(self, kind, made, status):
            made["metadata"] |= {"uid": str(uuid.uuid4()), "resourceVersion": "1", "creationTimestamp": _now()}
            if kind == "configmaps":
                kubelet.configure(made)
            if kind == "services":
                kubelet.services[made["metadata"]["name"]] = made["spec"].get("selector", {})
            if kind == "pods":
                made |= kubelet.shown(kubelet.schedule(made))
            self._say(made, status)

        def do_PATCH(self):
            """Change a pod, which changes nothing here, or apply an object, as Spark does with all but pods."""
            kind, name, _ = self._parts()
            body = self._body()
            if kind != "pods":
                return self._make(kind, body, 200)
            pod = kubelet.pods.get(name)
            return self._say({} if pod is None else kubelet.shown(pod))

        do_PUT = do_PATCH

        def do_DELETE(self):
            kind, name, _ = self._parts()
            self._body()
            if kind == "pods" and name:
                kubelet.forget(name)
            self._say({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    return Handler


def _now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

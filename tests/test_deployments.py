"""The manifests and the image of deploy/: they parse, what they name is there, and their options are those that Funken has."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from funken import config
from funken.config import Configuration
from funken.rest.app import dashboard_files, rejection
from funken.rest.settings import RestSettings

yaml = pytest.importorskip("yaml", reason="install it with: pip install pyyaml")
DEPLOY = Path(__file__).parents[1] / "deploy"
BASE = DEPLOY / "kubernetes" / "base"
OVERLAYS = sorted(path.parent for path in (DEPLOY / "kubernetes" / "overlays").glob("*/kustomization.yaml"))
MANIFESTS = [BASE / name for name in yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]]
KINDS = {
    ("v1", "Namespace"), ("v1", "ServiceAccount"), ("v1", "Service"), ("v1", "ConfigMap"),
    ("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"),
    ("policy/v1", "PodDisruptionBudget"), ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
}  # fmt: skip
KUSTOMIZE = next(
    (command for command in (["kubectl", "kustomize"], ["kustomize", "build"]) if shutil.which(command[0])), None
)
OUTSIDE = {
    "configMap": {"orders"},
    "secret": {"funken-rest", "funken-tls"},
    "persistentVolumeClaim": {"funken-storage"},
}
"""What job.yaml says has to be made before."""


def documents():
    return [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text())]


def pods(found=None):
    return {
        each["metadata"]["name"]: each for each in found or documents() if each["kind"] in ("Deployment", "StatefulSet")
    }


def rendered(folder):
    """What kustomize makes of an overlay; skips the test where there is no kustomize."""
    if KUSTOMIZE is None:
        pytest.skip("kubectl or kustomize is not installed")
    done = subprocess.run([*KUSTOMIZE, str(folder)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def test_each_object_has_a_kind_a_name_and_the_namespace():
    assert len(documents()) == 10
    for each in documents():
        assert (each["apiVersion"], each["kind"]) in KINDS
        assert re.fullmatch("[a-z][a-z0-9-]{0,62}", each["metadata"]["name"])
        assert each["kind"] == "Namespace" or each["metadata"]["namespace"] == "funken"


def test_what_is_referred_to_is_there():
    names = {(each["kind"], each["metadata"]["name"]) for each in documents()}
    for each in documents():
        if each["kind"] == "RoleBinding":
            assert {(each["roleRef"]["kind"], each["roleRef"]["name"])} <= names
            assert {(subject["kind"], subject["name"]) for subject in each["subjects"]} <= names
        if each["kind"] == "Service":
            ports = {port["name"] for pod in pods().values() for port in container(pod)["ports"]}
            assert {port["targetPort"] for port in each["spec"]["ports"]} <= ports
        if each["kind"] in ("Service", "PodDisruptionBudget"):
            wanted = each["spec"]["selector"].get("matchLabels", each["spec"]["selector"])
            labels = [pod["spec"]["template"]["metadata"]["labels"] for pod in pods().values()]
            assert sum(wanted.items() <= each.items() for each in labels) == 1
    for pod in pods().values():
        spec = pod["spec"]["template"]["spec"]
        assert ("ServiceAccount", spec.get("serviceAccountName", "funken-driver")) in names
        assert pod["spec"]["selector"]["matchLabels"].items() <= pod["spec"]["template"]["metadata"]["labels"].items()
        mounting = [container(pod), *spec["initContainers"]]
        mounted = {mount["name"] for each in mounting for mount in each["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}
        for volume in spec["volumes"]:
            kind = next(key for key in volume if key != "name")
            inside = {each["metadata"]["name"] for each in documents() if each["kind"].lower() == kind.lower()}
            assert kind == "emptyDir" or set(volume[kind].values()) & (inside | OUTSIDE[kind]), volume


def container(pod):
    (found,) = pod["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("name", sorted(pods()))
def test_the_options_of_funken_are_valid_and_their_files_are_mounted(name):
    found = container(pods()[name])
    pairs = [word.removeprefix("-D").split("=", 1) for word in found["args"] if word.startswith("-D")]
    configuration = Configuration()
    for key, value in pairs:
        configuration.set_string(key, value.replace("$(POD_NAME)", "orders-0"))
    mounts = tuple(mount["mountPath"] for mount in found["volumeMounts"])
    assert configuration.get(config.REST_TOKEN_FILE).startswith(mounts)
    assert (configuration.get(config.HA_STORAGE) or configuration.get(config.CHECKPOINT_DIR)).startswith(mounts)


def test_every_variable_of_a_command_is_set():
    for pod in pods().values():
        known = {each["name"] for each in container(pod).get("env", [])}
        assert set(re.findall(r"\$\((\w+)\)", " ".join(container(pod)["args"]))) <= known


def test_the_driver_runs_the_command_of_the_image_on_its_own_address():
    args = container(pods()["orders"])["args"]
    confs = dict(args[place + 1].split("=", 1) for place, word in enumerate(args) if word == "--conf")
    assert confs["spark.driver.bindAddress"] == "$(POD_IP)", "Spark tells executors this address, not spark.driver.host"
    assert confs["spark.driver.host"] == "$(POD_IP)" and confs["spark.kubernetes.driver.pod.name"] == "$(POD_NAME)"
    (template,) = [each["data"]["pod.yaml"] for each in documents() if each["kind"] == "ConfigMap"]
    context = pods()["orders"]["spec"]["template"]["spec"]["securityContext"]
    assert yaml.safe_load(template)["spec"]["securityContext"] == context, "executors write into the drivers' storage"
    assert confs["spark.kubernetes.executor.podTemplateFile"] == "/opt/funken/executor/pod.yaml"
    assert "spark.kubernetes.executor.podNamePrefix" not in confs, (
        "a driver that starts again would find its names taken"
    )
    assert confs["spark.kubernetes.container.image"] == container(pods()["orders"])["image"]
    assert int(confs["spark.executor.instances"]) * int(confs["spark.executor.cores"]) >= 2 * 4, "two stages of four"
    dockerfile = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert "/opt/funken/main.py" in args and "/opt/funken/main.py" in dockerfile
    assert "/opt/spark" in dockerfile and "/usr/bin/tini" in dockerfile


def test_the_image_is_made_of_files_that_are_there():
    for line in (DEPLOY / "docker" / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY"):
            for name in line.split()[1:-1]:
                assert (
                    name.startswith("--from=") or line.startswith("COPY --from=") or (DEPLOY.parent / name).exists()
                ), name


def test_the_image_is_built_from_all_that_the_build_needs():
    lines = (DEPLOY / "docker" / "Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    assert {project["project"]["readme"], "LICENSE", "pyproject.toml", "src"} <= copied
    hooks = project["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    assert "custom" in hooks and "hatch_build.py" in copied, "pip runs it"


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
def test_each_overlay_is_rendered_and_its_options_are_before_the_program(folder):
    found = rendered(folder)
    driver = pods(found)["orders"]
    args = container(driver)["args"]
    assert args[-1] == "/opt/jobs/orders.py" and args.index("run") < min(
        n for n, word in enumerate(args) if word[:2] == "-D"
    )
    assert all(word.startswith("-D") for word in args[args.index("run") + 1 : -1])
    for pod in pods(found).values():
        spec = pod["spec"]["template"]["spec"]
        mounted = {mount["name"] for each in spec["containers"] for mount in each["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in spec["volumes"]}
        names = {port["name"] for port in container(pod)["ports"]}
        for kind in ("readinessProbe", "livenessProbe"):
            probe = container(pod)[kind]["httpGet"]
            assert probe["port"] in names
            tls = any(word.startswith("-Drest.ssl.certificate=") for word in container(pod)["args"])
            assert probe.get("scheme", "HTTP") == ("HTTPS" if tls else "HTTP")


def test_one_driver_has_no_standby_and_no_budget_and_tls_has_the_files_of_its_secret():
    single, tls = (rendered(DEPLOY / "kubernetes" / "overlays" / name) for name in ("single", "tls"))
    assert pods(single)["orders"]["spec"]["replicas"] == 1
    assert "PodDisruptionBudget" not in {each["kind"] for each in single}
    for pod in pods(tls).values():
        args, spec = container(pod)["args"], pod["spec"]["template"]["spec"]
        paths = [word.partition("=")[2] for word in args if word.startswith("-Drest.ssl.")]
        assert paths == ["/run/tls/tls.crt", "/run/tls/tls.key"], "as Kubernetes names them"
        assert {"name": "tls", "mountPath": "/run/tls", "readOnly": True} in container(pod)["volumeMounts"]
        assert {"secretName": "funken-tls", "defaultMode": 0o440} in [
            volume.get("secret") for volume in spec["volumes"]
        ]


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
def test_kubernetes_own_schemas_accept_the_manifests(folder):
    validate = pytest.importorskip("kubernetes_validate", reason="install it with: pip install kubernetes-validate")
    for each in rendered(folder):
        validate.validate(each, "1.33", strict=True)


def test_probes_ask_for_a_path_that_needs_no_token():
    """A probe has no token, and a driver that asked for one would never be ready."""
    paths = {
        container(pod)[kind]["httpGet"]["path"]
        for pod in pods().values()
        for kind in ("readinessProbe", "livenessProbe")
    }
    assert paths == {"/"}
    assert (
        rejection(RestSettings(token="x" * 20), "GET", "/", {"host": "10.0.0.1:8081"}, "/" in dashboard_files()) is None
    )


def test_the_entry_point_passes_the_executors_options_on_one_by_one(tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
    java.chmod(0o755)
    names = (
        "EXECUTOR_ID",
        "EXECUTOR_CORES",
        "APPLICATION_ID",
        "EXECUTOR_POD_IP",
        "RESOURCE_PROFILE_ID",
        "EXECUTOR_POD_NAME",
    )
    environment = {f"SPARK_{name}": name.lower() for name in names} | {
        "PATH": "/usr/bin:/bin", "JAVA_HOME": str(tmp_path), "SPARK_HOME": "/opt/spark", "SPARK_EXECUTOR_MEMORY": "2g",
        "SPARK_DRIVER_URL": "spark://driver", "SPARK_CLASSPATH": "", "SPARK_JAVA_OPT_1": "-Dtwo words=2",
        "SPARK_JAVA_OPT_0": "-Done=1", "SPARK_JAVA_OPT_10": "-Dlast=3",
    }  # fmt: skip
    entry = DEPLOY / "docker" / "entrypoint.sh"
    done = subprocess.run([entry, "executor"], env=environment, capture_output=True, text=True, timeout=30, check=True)
    words = done.stdout.splitlines()
    assert words[:5] == ["<-Done=1>", "<-Dtwo words=2>", "<-Dlast=3>", "<-Xms2g>", "<-Xmx2g>"]
    assert words[words.index("<--executor-id>") + 1] == "<executor_id>"
    plain = subprocess.run(
        [entry, "echo", "a  b"], env=environment, capture_output=True, text=True, timeout=30, check=True
    )
    assert plain.stdout == "a  b\n"


def test_the_entry_point_submits_a_driver_in_client_mode_with_its_arguments(tmp_path):
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text('#!/bin/sh\nfor word; do echo "<$word>"; done\n')
    submit.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "SPARK_HOME": str(tmp_path), "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}
    command = [
        DEPLOY / "docker" / "entrypoint.sh",
        "driver",
        "--properties-file",
        "/opt/spark/conf/a b",
        "local:///opt/funken/main.py",
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split("\n")[:-1] == [
        "<--conf>", "<spark.driver.bindAddress=10.0.0.7>", "<--deploy-mode>", "<client>",
        "<--properties-file>", "</opt/spark/conf/a b>", "<local:///opt/funken/main.py>",
    ]  # fmt: skip

"""The manifests and the image of deploy/: they parse, what they name is there, and their options are those that Funken has."""

import re
import subprocess
from pathlib import Path

import pytest

from funken import config
from funken.config import Configuration

yaml = pytest.importorskip("yaml", reason="install it with: pip install pyyaml")
DEPLOY = Path(__file__).parents[1] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KINDS = {
    ("v1", "Namespace"), ("v1", "ServiceAccount"), ("v1", "Service"), ("apps/v1", "Deployment"),
    ("rbac.authorization.k8s.io/v1", "Role"), ("rbac.authorization.k8s.io/v1", "RoleBinding"),
}  # fmt: skip
OUTSIDE = {"configMap": {"orders"}, "secret": {"funken-rest"}, "persistentVolumeClaim": {"funken-storage"}}
"""What job.yaml says has to be made before."""


def documents():
    return [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text())]


def pods():
    return {each["metadata"]["name"]: each for each in documents() if each["kind"] == "Deployment"}


def test_each_object_has_a_kind_a_name_and_the_namespace():
    assert len(documents()) == 7
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
            assert each["spec"]["selector"] in [pod["spec"]["selector"]["matchLabels"] for pod in pods().values()]
    for pod in pods().values():
        spec = pod["spec"]["template"]["spec"]
        assert ("ServiceAccount", spec.get("serviceAccountName", "funken-driver")) in names
        assert pod["spec"]["selector"]["matchLabels"].items() <= pod["spec"]["template"]["metadata"]["labels"].items()
        mounting = [container(pod), *spec["initContainers"]]
        mounted = {mount["name"] for each in mounting for mount in each["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}
        for volume in spec["volumes"]:
            kind = next(key for key in volume if key != "name")
            assert kind == "emptyDir" or set(volume[kind].values()) & OUTSIDE[kind], volume


def container(pod):
    (found,) = pod["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("name", sorted(pods()))
def test_the_options_of_funken_are_valid_and_their_files_are_mounted(name):
    found = container(pods()[name])
    pairs = [word.removeprefix("-D").split("=", 1) for word in found["args"] if word.startswith("-D")]
    configuration = Configuration()
    for key, value in pairs:
        configuration.set_string(key, value.replace("$(POD_IP)", "10.0.0.1"))
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
    assert confs["spark.driver.host"] == "$(POD_IP)" and confs["spark.kubernetes.driver.pod.name"] == "$(POD_NAME)"
    assert confs["spark.kubernetes.container.image"] == container(pods()["orders"])["image"]
    assert int(confs["spark.executor.instances"]) * int(confs["spark.executor.cores"]) >= 2 * 4, "two stages of four"
    dockerfile = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert "/opt/funken/main.py" in args and "/opt/funken/main.py" in dockerfile
    assert "/opt/spark" in dockerfile and "/usr/bin/tini" in dockerfile


def test_the_image_is_made_of_files_that_are_there():
    for line in (DEPLOY / "docker" / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY"):
            for name in line.split()[1:-1]:
                assert (DEPLOY.parent / name).exists(), name


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

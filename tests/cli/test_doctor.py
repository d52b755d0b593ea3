"""``funken doctor``: what is missing is named, with what to do about it."""

import importlib.metadata
import json
import socket

import pytest
from click.testing import CliRunner

from funken import Configuration
from funken.cli import doctor
from funken.cli.doctor import (
    Grade,
    check_java,
    check_machine,
    check_master,
    check_packages,
    check_ports,
    check_python,
    check_storage,
    check_trial,
)
from funken.cli.main import main
from funken.errors import JavaNotFound


def grades(findings):
    return {each.what: each.grade for each in findings}


def test_this_python_will_do():
    assert grades(check_python())["Python"] is Grade.OK


def test_another_python_will_not(monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 14, 0))
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python3")
    found = list(check_python())

    assert [each.grade for each in found] == [Grade.MISSING] * 2
    assert "Use Python 3.11" in found[0].remedy and "PYSPARK_PYTHON" in found[1].remedy


def test_packages_are_compared_with_what_funken_requires(monkeypatch):
    requires = [
        "pyspark<4.4,>=4.3",
        "rich>=13",
        "nothing-at-all>=1",
        "none-either>=1; extra == 'rest'",
        "click>=8; extra == 'spark'",
        "third-one[with,parts]>=1; extra == 'spark'",
        "fourth-one; extra == 'avro'",
        "x>=1; extra == 'dev'",
    ]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: requires)
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.4.1" if name == "pyspark" else real(name))
    found = {each.what: each for each in check_packages()}

    assert {name: each.grade for name, each in found.items()} == {
        "pyspark": Grade.MISSING,
        "rich": Grade.OK,
        "nothing-at-all": Grade.MISSING,
        "Extra spark": Grade.REMARK,
        "Other extras": Grade.OK,
    }
    assert found["pyspark"].found == "4.4.1, but <4.4,>=4.3 is needed"
    assert found["Extra spark"].found.endswith("third-one not installed")
    assert found["Extra spark"].remedy == "Run: pip install 'funken[spark]'"
    assert found["Other extras"].found == "avro, rest are not installed"


def test_a_missing_java_comes_with_its_remedy(monkeypatch):
    def none():
        raise JavaNotFound("Spark needs Java 17. Run pip install 'funken[java]'.")

    monkeypatch.setattr(doctor, "ensure_java", none)
    (found,) = check_java()

    assert (found.grade, found.found, found.remedy) == (
        Grade.MISSING,
        "Spark needs Java 17",
        "Run pip install 'funken[java]'.",
    )


def test_a_light_installation_needs_no_java(monkeypatch):
    def none():
        raise JavaNotFound("Spark needs Java 17. Run pip install 'funken[java]'.")

    monkeypatch.setattr(doctor, "ensure_java", none)
    monkeypatch.setattr(doctor.extras, "has_spark", lambda: False)
    (found,) = check_java()

    assert (found.grade, found.found) == (Grade.OK, "none, and none is needed without PySpark")


def test_a_pyspark_of_another_version_is_no_reason_to_install_one(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["pyspark>=4.3,<4.4; extra == 'spark'"])
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "4.1.0")
    (found,) = check_packages()

    assert (found.grade, found.found) == (Grade.REMARK, "pyspark 4.1.0, but >=4.3,<4.4 is needed")
    assert "or a cluster with that version" in found.remedy


def test_a_port_that_is_named_has_to_be_free():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        (taken,) = check_ports(Configuration({"rest.port": port}))
    (free,) = check_ports(Configuration({"rest.port": port}))

    assert (taken.grade, free.grade) == (Grade.REMARK, Grade.OK)
    assert list(check_ports(Configuration())) == []


def test_a_small_program_runs():
    (found,) = check_trial()

    assert found.grade is Grade.OK and found.found.startswith("a program of three operators ran in")


def test_a_program_that_fails_is_a_finding(monkeypatch):
    monkeypatch.setattr(doctor, "_TRIAL", "raise SystemExit('no room left')")
    (found,) = check_trial()

    assert (found.grade, found.found) == (Grade.MISSING, "a program of three operators failed: no room left")


def test_a_machine_without_an_address_can_still_run_jobs(monkeypatch):
    def unknown(name):
        raise socket.gaierror("not known")

    monkeypatch.setattr(doctor.socket, "gethostbyname", unknown)

    assert grades(check_machine())["Host name"] is Grade.REMARK


def test_a_master_has_to_answer():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert grades(check_master(f"spark://127.0.0.1:{port}")) == {"Spark master": Grade.OK}
    assert grades(check_master(f"spark://127.0.0.1:{port}")) == {"Spark master": Grade.MISSING}
    assert grades(check_master("local[4]")) == {}


def test_checkpoint_storage_is_written_read_and_left_empty(tmp_path):
    assert grades(check_storage(str(tmp_path))) == {"Checkpoint storage": Grade.OK}
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    assert grades(check_storage(str(tmp_path / "file"))) == {"Checkpoint storage": Grade.MISSING}


@pytest.mark.parametrize(("grade", "code"), [(Grade.OK, 0), (Grade.REMARK, 0), (Grade.MISSING, 1)])
def test_only_what_is_missing_fails(monkeypatch, grade, code):
    found = doctor.CheckResult("disk", grade, "full", "Free some space.")
    monkeypatch.setattr(doctor, "findings", lambda configuration: [found])

    plain, encoded = (CliRunner().invoke(main, ["doctor", *options]) for options in ([], ["--json"]))

    assert (plain.exit_code, encoded.exit_code) == (code, code)
    assert "disk: full" in plain.output and "Free some space." in plain.output
    assert json.loads(encoded.output) == [
        {"what": "disk", "grade": grade.value, "found": "full", "remedy": "Free some space."}
    ]


def test_all_checks_run_on_this_machine():
    assert {"Python", "click", "Local run", "Cores", "Temporary folder"} <= grades(
        doctor.findings(Configuration())
    ).keys()

"""Builds what the other systems need, each in an environment of its own below ``benchmarks/.envs``, once.

An environment is made again when its list of packages changes; the Java classes, when their source does.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENVS = HERE.parent / ".envs"
PACKAGES = {
    # PyFlink's packages still ask setuptools for pkg_resources.
    "pyflink": ["apache-flink==2.3.0", "setuptools<81"],
    "bytewax": ["bytewax==0.21.1", "confluent-kafka==2.16.1"],
    "quix": ["quixstreams==3.28.1"],
    "plots": ["matplotlib>=3.9,<4"],
    "duckdb": ["duckdb==2.0.0"],
    "tpch": ["duckdb==1.5.5", "duckdb-extensions", "duckdb-extension-tpch==1.5.5"],  # dbgen, as a wheel
    "igraph": ["igraph==1.0.0", "networkx>=3.2,<4", "numpy", "pyarrow"],
    "flink-dataset": ["--no-deps", "apache-flink-libraries==1.20.3"],  # the jars of the last Flink with the DataSet API
}
JARS = {"gelly": "org.apache.flink:flink-gelly:1.16.3"}  # the last of them; it runs on the DataSet API of Flink 1.20
"""Jars of Maven Central, without what they depend on."""
BESIDE = {"spark": ["protobuf>=5.29,<7"]}
"""Packages that join those of Funken's own environment: Spark's ``transformWithState`` speaks protobuf with its workers."""

KAFKA_JARS = (
    "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Flink's and Spark's connectors for Kafka; neither is made for the newest version of its system yet, and both work with it."""

PARQUET_JAR = "org.apache.flink:flink-sql-parquet:2.3.0"
"""Flink's format; the classes of Hadoop that it needs are among PySpark's."""

INSTALL_SECONDS = 1800


class CannotBuild(Exception):
    """An environment could not be made; the systems that need it are left out."""


def python(name: str) -> Path:
    """Return the interpreter of an environment."""
    return Path(sys.executable) if name in ("funken", *BESIDE) else ENVS / name / "bin" / "python"


def build(name: str, say: Callable[[str], None]) -> None:
    """Make an environment, if it is not there as it should be."""
    wanted = PACKAGES.get(name) or BESIDE.get(name)
    if wanted is None:
        return
    stamp = ENVS / name / ".packages"
    if not stamp.exists() or stamp.read_text() != "\n".join(wanted):
        say(f"installing {', '.join(wanted)} (once)")
        shutil.rmtree(ENVS / name, ignore_errors=True)
        if name in BESIDE:
            _run(name, [sys.executable, "-m", "pip", "install", "-q", "--target", str(ENVS / name), *wanted])
        else:
            _run(name, [sys.executable, "-m", "venv", str(ENVS / name)])
            _run(name, [str(python(name)), "-m", "pip", "install", "-q", *wanted])
        stamp.write_text("\n".join(wanted))
    if name == "pyflink":
        _compile(say)


def jars(name: str, say: Callable[[str], None]) -> Path:
    """Return the folder with a jar of Maven Central, which Maven has fetched and verified, once."""
    artifact = JARS[name]
    folder = ENVS / f"{name}-{artifact.rpartition(':')[2]}"
    if not folder.exists():
        if shutil.which("mvn") is None:
            raise CannotBuild(
                f"{name}: there is no Maven to fetch {artifact} with (Debian, Ubuntu: apt-get install maven)."
            )
        say(f"fetching {artifact} (once)")
        ENVS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=ENVS) as work:
            found = [f"-Dartifact={artifact}", f"-DoutputDirectory={work}/jars"]
            _run(name, ["mvn", "-q", "-B", "-C", "dependency:get", found[0], "-Dtransitive=false"])
            _run(name, ["mvn", "-q", "-B", "-C", "-o", "dependency:copy", *found])
            os.replace(Path(work, "jars"), folder)
    return folder


def _run(name: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode:
        raise CannotBuild(f"{name}: {' '.join(command[:4])} ... failed:\n{(done.stdout + done.stderr)[-2000:]}")


def libraries() -> Path:
    """Return the folder of PyFlink's jars."""
    return next((ENVS / "pyflink").glob("lib/python*/site-packages/pyflink/lib"))


def kafka_jars(system: str) -> list[Path]:
    """Return the jars of Flink's (``flink``) or Spark's (``spark``) connector, as Maven Central has them; fetched once."""
    return _fetched(system, "kafka-jars", *(name for name in KAFKA_JARS if ("flink" in name) == (system == "flink")))


def parquet_jars() -> list[Path]:
    """Return the jars with which Flink reads Parquet files; fetched once."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    hadoop = sorted(Path(spec.origin).parent.glob("jars/hadoop-client-*.jar"))
    return [*_fetched("flink", "parquet-jars", PARQUET_JAR), *hadoop]


def _fetched(system: str, place: str, *names: str) -> list[Path]:
    folder = ENVS / place
    wanted = [name.split(":") for name in names]
    found = [folder / f"{artifact}-{version}.jar" for _, artifact, version in wanted]
    if not all(path.exists() for path in found):
        if shutil.which("mvn") is None:
            raise CannotBuild(f"{system}: there is no Maven to fetch {', '.join(names)} (apt-get install maven).")
        for name in wanted:
            copy = ["-Dmdep.stripVersion=false", "-Dtransitive=false", f"-DoutputDirectory={folder}"]
            _run(system, ["mvn", "-q", "-B", "-C", "dependency:copy", f"-Dartifact={':'.join(name)}", *copy])
    return found


def _compile(say: Callable[[str], None]) -> None:
    """Compile the Java classes against PyFlink's jars, into a jar beside them: so PyFlink's own JVM has them, too."""
    sources = sorted((HERE / "java").glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    stamp, classes = ENVS / "pyflink" / ".classes", ENVS / "pyflink" / "classes"
    if stamp.exists() and stamp.read_text() == digest:
        return
    if shutil.which("javac") is None:
        raise CannotBuild("pyflink: there is no javac; install a JDK 17 or newer (a JRE is not enough).")
    say("compiling the Java job")
    shutil.rmtree(classes, ignore_errors=True)
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.apache.flink.metrics.reporter.MetricReporterFactory").write_text("bench.Meter$Factory\n")
    _run("pyflink", ["javac", "-nowarn", "-d", str(classes), "-cp", f"{libraries()}/*", *map(str, sources)])
    # A jar is a zip with the names inside as they are below the folder.
    archive = shutil.make_archive(str(ENVS / "pyflink" / "bench"), "zip", classes)
    shutil.move(archive, libraries() / "funken-bench.jar")
    stamp.write_text(digest)


def variables(name: str) -> dict[str, str]:
    """Return the environment variables of a system's processes."""
    found = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "FLINK_", "PYTHON"))}
    path = [str(HERE)]
    if name in BESIDE:
        path.append(str(ENVS / name))
    if name == "pyflink":
        # The interpreter that thread mode embeds knows nothing of the environment.
        path.append(str(libraries().parent.parent))
        found["FLINK_CLASSPATH"] = f"{libraries()}/*"
    return {**found, "PYTHONPATH": os.pathsep.join(path), "PYSPARK_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1"}


def versions() -> dict[str, str]:
    """Return the versions of what was built."""
    found = {}
    for name, wanted in (PACKAGES | BESIDE).items():
        if (ENVS / name / ".packages").exists():
            found[name] = ", ".join(wanted)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=False)
    found["java"] = java.stderr.splitlines()[0] if java.stderr else "none"
    return found

"""Delta Lake of Spark, for tests: no release fits this PySpark, so an older one runs in an environment of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from funken.io.temporary import cache_folder
from funken.spark.java import ensure_java

DELTA, PYSPARK, ARTIFACT = "4.3.1", "4.1.1", "delta-spark_4.1_2.13"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>funken</groupId><artifactId>delta</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>io.delta</groupId><artifactId>{ARTIFACT}</artifactId><version>{DELTA}</version>
<exclusions><exclusion><groupId>org.apache.spark</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
</dependencies></project>"""
SESSION = """
import glob, sys
from pyspark.sql import SparkSession

options = {
    "spark.jars": ",".join(glob.glob(sys.argv[1] + "/*.jar")),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
builder = SparkSession.builder.master("local[1]")
for key, value in options.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
table = f"delta.`{sys.argv[2]}`"
"""


def delta_spark():
    """The folder with an interpreter and jars, or why there is none."""
    home = cache_folder() or Path(tempfile.gettempdir(), "funken")
    folder = home / "services" / f"delta-spark-{DELTA}"
    if folder.is_dir():
        return folder, ""
    uv = shutil.which("uv", path=Path(sys.executable).parent) or shutil.which("uv")
    if uv is None or shutil.which("mvn") is None:
        return None, "Delta's jars are not there; uv and Maven fetch them (pip install uv; apt-get install maven)"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        Path(work, "pom.xml").write_text(POM)
        packages = [f"pyspark=={PYSPARK}", f"delta-spark=={DELTA}"]
        for run in (
            [uv, "venv", "-q", "--system-certs", "--relocatable", "made/v"],
            [uv, "pip", "install", "-q", "--system-certs", "--python", "made/v/bin/python", *packages],
            [
                "mvn",
                "-q",
                "-B",
                "-C",
                "dependency:copy-dependencies",
                "-DincludeScope=runtime",
                "-DoutputDirectory=made/jars",
            ],
        ):
            done = subprocess.run(run, cwd=work, capture_output=True, text=True, timeout=900, check=False)
            if done.returncode:
                return (
                    None,
                    f"{run[0]} cannot fetch Delta for Spark: {(done.stdout + done.stderr).strip().splitlines()[:1]}",
                )
        os.replace(Path(work, "made"), folder)
    return folder, ""


class DeltaSpark:
    """Programs of Spark over one Delta table; they have ``spark`` and ``table``."""

    def __init__(self, folder, path):
        self._folder, self._path = folder, path
        self._environment = {**os.environ, "JAVA_HOME": str(ensure_java()), "PYTHONPATH": ""}

    def start(self, program):
        """Start a program; its output is a pipe."""
        run = [self._folder / "v" / "bin" / "python", "-c", SESSION + program, self._folder / "jars", self._path]
        return subprocess.Popen(
            run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._environment, cwd=self._path.parent
        )

    def run(self, program):
        """Run a program, and return the last line of its output."""
        process = self.start(program)
        return last_line(process)


def last_line(process):
    """The last line of a program's output; an error has its last lines."""
    out, error = process.communicate(timeout=280)
    assert process.returncode == 0, error[-3000:]
    return out.strip().splitlines()[-1] if out.strip() else ""

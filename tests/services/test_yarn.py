"""Programs that spark-submit starts on YARN, in both deploy modes, with modules that come by --py-files."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from funken.cli.main import main
from tests.support.files import written
from tests.support.hadoop import YarnCluster, hadoop_jars

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]

COUNT = 4_000
PROGRAM = """
import sys
from shipped_words import keyed  # by --py-files: it is installed nowhere
from funken import *

folder, target = sys.argv[1:]
conf = {"execution.target": target, "parallelism.default": 2, "rest.enabled": "false"}
if target == "continuous":
    conf |= {"execution.checkpointing.interval": "500 ms", "execution.checkpointing.dir": folder + "/checkpoints"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration(conf))
source = DataGeneratorSource(lambda n: n, COUNT, 2_000)
counts = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").map(keyed).uid("pairs")
sink = FileSink.for_row_format(folder + "/out", Encoder.simple_string_encoder())
sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
sums = counts.key_by(lambda pair: pair[0]).reduce(lambda one, other: (one[0], one[1] + other[1])).uid("sums")
sums.map(lambda pair: f"{pair[0]} {pair[1]}").uid("lines").sink_to(sink).uid("files")
env.execute("on yarn")
print("the job has run")
"""


@pytest.fixture(scope="module")
def yarn(tmp_path_factory):
    jars, missing = hadoop_jars()
    if jars is None:
        pytest.skip(missing)
    cluster = YarnCluster(tmp_path_factory.mktemp("yarn"), jars)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    ("deploy", "target"), [("cluster", "continuous"), ("client", "continuous"), ("cluster", "batch")]
)
def test_a_program_runs_where_spark_submit_says(yarn, tmp_path, deploy, target):
    (tmp_path / "program.py").write_text(PROGRAM.replace("COUNT", str(COUNT)))
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as shipped:
        shipped.writestr("shipped_words.py", "def keyed(n):\n    return n % 10, 1\n")

    done = yarn.submit(
        deploy,
        sys.executable,
        tmp_path / "program.py",
        tmp_path,
        target,
        more=["--py-files", str(tmp_path / "shipped.zip")],
    )

    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{yarn.logs()}"
    assert ("the job has run" in done.stdout) is (deploy == "client")
    assert written(tmp_path) == Counter(f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1))


def test_the_demo_runs_in_cluster_mode_by_the_command_of_the_guide():
    if (found := hadoop_jars())[0] is None:
        pytest.skip(found[1])
    root = Path(__file__).parents[2]
    (command,) = re.findall(r"`(make [a-z]+)` starts a YARN", (root / "docs" / "guide" / "clusters.md").read_text())
    expected = CliRunner().invoke(main, ["demo", "--target", "local", "--speed", "0"]).stdout
    (words,) = re.findall(r"[\d,]+ words, [\d,]+ of them different", expected)

    process = subprocess.Popen(
        [*command.split(), "-o", "setup"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, wrong = process.communicate(timeout=600)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # of a test that was interrupted, the servers as well

    assert process.returncode == 0, wrong[-5000:]
    assert words in printed
    rows = [
        line.split() for line in expected[expected.index(words) :].splitlines() if re.match(r"\s*\S+\s+[\d,]+\s", line)
    ]
    assert len(rows) == 10
    assert all(row in [line.split() for line in printed.splitlines()] for row in rows)

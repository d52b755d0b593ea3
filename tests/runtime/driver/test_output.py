"""Standard output that is closed, and one whose reader has ended: the job does not restart for ever, nor fail for nothing."""

import subprocess
import sys

import pytest

BOUND = 60

JOB = """\
from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy

env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "local"}))
env.set_parallelism(1).enable_checkpointing("50 ms")
numbers = DataGeneratorSource(lambda index: index, COUNT, 2000)
env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").print()
env.execute()
"""


@pytest.fixture
def script(tmp_path):
    def write(count):
        path = tmp_path / "job.py"
        path.write_text(JOB.replace("COUNT", str(count)))
        return path

    return write


def test_a_job_whose_lines_nobody_reads_any_more_ends(script):
    child = subprocess.Popen([sys.executable, script(None)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with child:
        assert child.stdout.readline() == "0\n"
        child.stdout.close()
        said = child.stderr.read()
        child.wait(BOUND)

    assert child.returncode
    assert "SuppressRestarts: standard output cannot be written to, because its reader has ended." in said
    assert "restarted" not in said


@pytest.mark.parametrize("command", [[], ["-m", "funken", "run", "--target", "local"]])
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_a_job_without_standard_streams_runs(script, command, closed):
    words = [sys.executable, *command, str(script(3))]
    ended = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *words], timeout=BOUND, check=False, capture_output=True
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == b""

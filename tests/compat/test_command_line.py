"""``funken run --pyflink``: a script written for PyFlink, as it is."""

import subprocess
import sys

JOB = """
import sys
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([(sys.argv[1], 1)], Types.TUPLE([Types.STRING(), Types.INT()])).print()
env.execute("job")
"""


def funken(*arguments):
    main = "from funken.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", main, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_pyflink_job_runs_unmodified(tmp_path):
    (tmp_path / "job.py").write_text(JOB)

    done = funken("run", "--pyflink", "--target", "local", str(tmp_path / "job.py"), "word")

    assert done.returncode == 0, done.stderr
    assert done.stdout == "(word,1)\n"


def test_its_plan_can_be_shown(tmp_path):
    (tmp_path / "job.py").write_text(JOB)

    done = funken("explain", "--pyflink", str(tmp_path / "job.py"), "word")

    assert "[0] collection -> print" in done.stdout, done.stderr


def test_without_the_flag_pyflink_is_not_there(tmp_path):
    (tmp_path / "job.py").write_text(JOB)

    assert funken("run", "--target", "local", str(tmp_path / "job.py"), "word").returncode != 0

"""Jobs on a cluster of two executor processes: tasks that fail are repeated, a worker that is killed is recovered from."""

import pytest

from tests.support.java import BRIEF

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCRIPT = """
import os, shutil, signal, sys
from collections import Counter
from pathlib import Path
import pyspark
from funken import *

folder = Path(sys.argv[1])

class Break(MapFunction):
    \"\"\"Once, at a number that is far enough: raises, or kills its process.\"\"\"

    def __init__(self, name):
        self.marker = str(folder / name)

    def map(self, value):
        if value[1] > 150 and os.path.exists(self.marker):
            try:
                os.unlink(self.marker)
            except FileNotFoundError:
                return value
            if self.marker.endswith("killed"):
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("as planned")
        return value

def run(mode, names, **options):
    for name in names:
        (folder / name).touch()
    conf = {"execution.target": mode, "spark.master": "local-cluster[2,4,1024]", "parallelism.default": 4}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(conf | options))
    source = DataGeneratorSource(lambda n: (n % 100, n // 100), 20_000, 20_000 if mode == "continuous" else None)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    for name in names:
        if name.startswith("source"):
            stream = stream.map(Break(name))
    stream = stream.map(lambda pair: (pair[0], 1)).key_by(lambda pair: pair[0]).sum(1)
    for name in names:
        if name.startswith("count"):
            stream = stream.map(Break(name))
    sink = FileSink.for_row_format(str(folder / mode), Encoder.simple_string_encoder())
    sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    stream.map(lambda pair: f"{pair[0]} {pair[1]}").sink_to(sink)
    env.execute()
    assert not [name for name in names if (folder / name).exists()], "it broke as planned"
    parts = [path for path in (folder / mode).rglob("part-*") if path.is_file()]
    found = Counter(line for path in parts for line in path.read_text().splitlines())
    print(mode, found == Counter(f"{key} {n}" for key in range(100) for n in range(1, 201)))

run("batch", ["source-raises", "source-is-killed", "count-raises", "count-is-killed"])
run("continuous", ["count-is-killed"], **{
    "execution.checkpointing.interval": "100 ms",
    "execution.checkpointing.dir": str(folder / "checkpoints"),
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "1 ms",
})
context = pyspark.SparkContext._active_spark_context
logs = Path(pyspark.__file__).parent / "work" / context.applicationId  # executors of a local cluster write nowhere else
context.stop()
shutil.rmtree(logs)
"""


def test_results_are_the_same_when_tasks_break_on_a_cluster(script, tmp_path):
    done = script(SCRIPT, str(tmp_path), timeout=280, JDK_JAVA_OPTIONS=BRIEF)

    assert done.stdout.splitlines() == ["batch True", "continuous True"], done.stderr

"""A job for a process of its own: it counts in keyed state, and a file sink shows each count once if nothing is lost."""

from collections import Counter

COUNT = 12_000
EXPECTED = Counter(f"{key} {n}" for key in range(10) for n in range(1, COUNT // 10 + 1))

JOB = f"""
import pathlib, sys
from funken import *

folder = pathlib.Path(sys.argv[1])

class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        yield f"{{ctx.get_current_key()}} {{self.count.value()}}"

def program(env, rate=4000, name="out"):
    from funken.connectors.files.sink import BucketAssigner
    sink = (
        FileSink.for_row_format(str(folder / name), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    numbers = env.from_source(DataGeneratorSource(lambda i: i, {COUNT}, rate), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.uid("numbers").key_by(lambda n: n % 10).process(Count()).uid("count").sink_to(sink).uid("files")
    return env
"""

PROGRAM = (
    JOB
    + """
env = program(StreamExecutionEnvironment.get_execution_environment())
if (folder / "asynchronous").exists():
    env.execute_async()
else:
    env.execute()
"""
)

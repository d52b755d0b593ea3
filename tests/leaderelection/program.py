"""A job that several processes run: counts numbers by key, and writes every count to files, exactly once.

Who commits what is in a journal.

python -m tests.leaderelection.program FOLDER COUNT RATE [KEY=VALUE]...
"""

import logging
import sys
from pathlib import Path

from funken import Configuration, DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from tests.recovery.test_recovery import Count
from tests.support.commit_journal import JournalSink
from tests.support.files import file_sink


def main(folder, count, rate, *options):
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    conf = Configuration(
        {
            "execution.target": "local",
            "parallelism.default": 1,
            "execution.checkpointing.interval": "50 ms",
            "execution.checkpointing.dir": f"{folder}/checkpoints",
            "high-availability.type": "lease",
            "high-availability.cluster-id": "counts",
            "high-availability.lease.duration": "2 s",
        }
        | dict(option.split("=", 1) for option in options)
    )
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    numbers = env.from_source(
        DataGeneratorSource(int, int(count), float(rate)), WatermarkStrategy.no_watermarks(), "numbers"
    ).uid("numbers")
    counts = numbers.key_by(lambda n: n % 10).process(Count()).uid("count")
    lines = counts.map(lambda pair: f"{pair[0]} {pair[1]}")
    lines.sink_to(file_sink(Path(folder))).uid("files")
    lines.sink_to(JournalSink(f"{folder}/journal")).uid("journal")
    env.execute("counts")


if __name__ == "__main__":
    main(*sys.argv[1:])

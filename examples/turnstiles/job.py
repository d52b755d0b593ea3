"""A program of two modules that is stopped with a savepoint and resumed from it, with another parallelism.

Without arguments it does both: it stops the job in the midst of its work, resumes it with twice the parallelism, and checks
in the files that every passage was counted once. By hand, on Spark:

    python job.py --results results --rate 100
    funken stop turnstiles --savepoint-dir savepoints          (in another terminal; it prints the path of the savepoint)
    python job.py --results results --parallelism 4 --from-savepoint savepoints/savepoint-...
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from counting import CountPassages, passage

from funken import DataGeneratorSource, Encoder, FileSink, StreamExecutionEnvironment


def program(results, count, rate=None, parallelism=1, savepoint=None):
    """Return the environment with the job; every operator with state has a uid, by which a savepoint knows it."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    env.enable_checkpointing(100)  # a FileSink shows its files when a checkpoint is complete
    if savepoint is not None:
        env.get_configuration().set("execution.state-recovery.path", str(savepoint))
    passages = env.from_source(DataGeneratorSource(passage, count, rate), None, "turnstiles").uid("turnstiles")
    counts = passages.key_by(lambda passage: passage[0]).process(CountPassages()).uid("count")
    files = FileSink.for_row_format(str(results), Encoder.simple_string_encoder()).build()
    counts.sink_to(files).uid("files")
    return env


def lines(results):
    """Return the lines of the files that are complete."""
    return [line for part in Path(results).rglob("part-*") for line in part.read_text().splitlines()]


def stop_and_resume(folder, count):
    results, savepoints = folder / "results", folder / "savepoints"
    client = program(results, count, rate=200).execute_async("turnstiles")
    result = client.get_job_execution_result()
    while not lines(results) and not result.done():  # until there is something to resume
        time.sleep(0.02)
    savepoint = client.stop_with_savepoint(False, str(savepoints)).result(60)
    before = len(lines(results))
    print("stopped in between:", 0 < before < count)

    program(results, count, parallelism=2, savepoint=savepoint).execute("turnstiles")
    counted = Counter(line.rpartition(" ")[0] for line in lines(results))
    print("passages:", len(counted), "each counted once:", set(counted.values()) == {1})
    for gate in ("north", "south", "west"):
        last = max((line.split() for line in lines(results) if line.startswith(gate)), key=lambda words: int(words[1]))
        print(f"{gate}: {last[1]} passages, {last[2]} more in than out")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", help="folder of the results; without it, the script shows both halves")
    parser.add_argument("--count", type=int, default=6000, help="how many passages there are")
    parser.add_argument("--rate", type=float, help="passages per second")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--from-savepoint", help="resume from this one")
    given = parser.parse_args()
    if given.results is None:
        with tempfile.TemporaryDirectory() as temporary:
            stop_and_resume(Path(temporary), given.count)
    else:
        env = program(given.results, given.count, given.rate, given.parallelism, given.from_savepoint)
        env.execute("turnstiles")

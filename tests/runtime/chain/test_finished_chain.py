"""A subtask that had ended when a checkpoint was made does not run again when a job starts from it."""

from collections import Counter
from pathlib import Path

import pytest

from funken import DataGeneratorSource, MapFunction, NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.checkpoint.store.completed import CompletedCheckpointStore
from funken.errors import JobExecutionError
from funken.io.storage import LocalStorage


class Opens(MapFunction):
    """Writes down each opening."""

    def __init__(self, path):
        self.path = path

    def open(self, runtime_context):
        with self.path.open("a") as file:
            file.write("o")

    def map(self, value):
        return value


class Breaks(MapFunction):
    """Raises once a complete checkpoint says that the short source has ended, if told to."""

    def __init__(self, folder):
        self.folder = folder

    def map(self, value):
        if self.folder and value % 50 == 0 and any(ended(self.folder).values()):
            raise RuntimeError("as planned")
        return value


def ended(folder):
    """By uid, of the newest checkpoint: how many subtasks are not to run again."""
    catalog = CompletedCheckpointStore(LocalStorage(str(folder / "checkpoints" / "job")))
    catalog.scan()
    if not catalog.complete:
        return {}
    return {
        entry.id: sum(handle.finished for handle in entry.subtasks)
        for entry in catalog.complete[max(catalog.complete)].operators
    }


def program(folder, breaks, rate=None, width=1):
    env = StreamExecutionEnvironment.create_local_environment(1)
    for key, value in {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.job-id": "job",
        "pipeline.max-parallelism": 8,
        "restart-strategy.type": "none",
    }.items():
        env.get_configuration().set(key, value)
    plain = WatermarkStrategy.no_watermarks()
    short = (
        env.from_source(NumberSequenceSource(1, 9), plain, "short")
        .uid("short")
        .map(Opens(folder / "short"))
        .uid("opens")
    )
    spread = short.rebalance().map(Opens(folder / "after")).set_parallelism(width)
    long = env.from_source(DataGeneratorSource(lambda i: i + 100, 6_000, rate), plain, "long").uid("long")
    rest = long.map(Breaks(breaks and folder)).uid("breaks").rebalance().map(lambda n: n).uid("rest")
    both = spread.uid("after").union(rest.set_parallelism(1))
    keyed = both.key_by(lambda n: n % 3).reduce(max).uid("largest").set_parallelism(width)
    return keyed.map(lambda n: n).uid("out").set_parallelism(1)


@pytest.mark.parametrize("width", [1, 2])
def test_what_had_ended_is_not_opened_again_and_holds_nobody_up(tmp_path, width):
    with pytest.raises(JobExecutionError, match="as planned"):
        program(tmp_path, breaks=True, rate=3_000).execute_and_collect(limit=10**6)
    found = ended(tmp_path)
    assert (found["short"], found["opens"]) == (1, 1)
    assert (found["long"], found["largest"]) == (0, 0)
    opened = {name: Path(tmp_path / name).read_text() for name in ("short", "after")}
    assert opened["short"] == "o"

    results = program(tmp_path, breaks=False, width=width).execute_and_collect(limit=10**6)

    assert Path(tmp_path / "short").read_text() == "o", "the source and what is chained to it had ended"
    if found["after"]:
        assert Path(tmp_path / "after").read_text() == opened["after"]
    largest = Counter({n % 3: 0 for n in results})
    for n in results:
        largest[n % 3] = max(largest[n % 3], n)
    assert largest == {n % 3: n for n in range(6_097, 6_100)}

"""A folder that is watched, in a job in this process: new files are read, whatever else the job does, until it is ended."""

import threading
import time

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    FileSource,
    JobStatus,
    StreamExecutionEnvironment,
    StreamFormat,
    WatermarkStrategy,
)

UNTIMED = WatermarkStrategy.no_watermarks()
SECONDS = 30


def put(folder, name, text):
    """Move a file in, as a whole."""
    hidden = folder / f".{name}"
    hidden.write_text(text)
    hidden.rename(folder / name)


def watched(env, folder):
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
    return env.from_source(lines.monitor_continuously(20).build(), UNTIMED, "lines")


def within(seconds, work):
    """Call something that might never return; fail if it does not."""
    result = []
    thread = threading.Thread(target=lambda: result.append(work()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert result, f"it has not returned within {seconds} s"
    return result[0]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a busy source"])
def test_new_files_are_read(tmp_path, parallelism, beside):
    env = StreamExecutionEnvironment.create_local_environment(parallelism)
    stream = watched(env, tmp_path)
    if beside:
        busy = env.from_source(DataGeneratorSource(lambda index: "busy"), UNTIMED, "busy")
        stream = stream.union(busy.filter(lambda text: text != "busy"))
    put(tmp_path, "a.txt", "one\n")

    def read():
        with stream.execute_and_collect() as records:
            found = [next(records)]
            put(tmp_path, "b.txt", "two\n")
            found.append(next(records))
            time.sleep(0.1)
            put(tmp_path, "c.txt", "three\n")
            return [*found, next(records)]

    assert within(SECONDS, read) == ["one", "two", "three"]


def test_a_job_that_waits_for_files_can_be_cancelled(tmp_path):
    env = StreamExecutionEnvironment.create_local_environment(2)
    watched(env, tmp_path).print()
    client = env.execute_async("watch")

    def cancel():
        while client.get_job_status().result() is not JobStatus.RUNNING:
            time.sleep(0.01)
        client.cancel().result()
        return client.get_job_status().result()

    assert within(SECONDS, cancel) is JobStatus.CANCELED


def test_a_job_that_waits_for_files_can_be_stopped_with_a_savepoint(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    options = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.interval": "50 ms",
    }
    env = StreamExecutionEnvironment.create_local_environment(2, Configuration(options))
    put(folder, "a.txt", "one\n")
    watched(env, folder).print()
    client = env.execute_async("watch")

    def stop():
        while client.get_job_status().result() is not JobStatus.RUNNING:
            time.sleep(0.01)
        path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
        client.get_job_execution_result().result()
        return path

    assert str(tmp_path / "savepoints") in within(SECONDS, stop)

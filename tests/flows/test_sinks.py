"""Where records end: printed, in files, in the program; and files as a source."""

from collections import Counter

import pytest

from funken import Encoder, FileSink, NumberSequenceSource, WatermarkStrategy


def lines_of(folder):
    return Counter(line for path in folder.rglob("part-*") for line in path.read_text().splitlines())


@pytest.mark.ways("local", "batch")
def test_print_prefixes(environment, capsys):
    def printed(parallelism, *identifier):
        env = environment({"parallelism.default": parallelism})
        env.from_source(NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), "n").print(*identifier)
        env.execute()
        return sorted(capsys.readouterr().out.splitlines())

    assert printed(1) == ["1", "2"]
    assert printed(1, "id") == ["id> 1", "id> 2"]
    assert printed(2) == ["1> 1", "2> 2"]
    assert printed(2, "id") == ["id:1> 1", "id:2> 2"]


def test_printed_text(env, capsys):
    env.from_collection(["word", ("a", 1), None, True, 1.5, [1]]).print()
    env.execute()

    printed = {line.split("> ", 1)[1] for line in capsys.readouterr().out.splitlines()}
    assert printed == {"word", "('a', 1)", "null", "True", "1.5", "[1]"}


@pytest.mark.ways("local", "batch")
def test_a_failed_job_leaves_no_visible_file(env, tmp_path):
    sink = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()
    env.from_collection(range(100)).rebalance().map(lambda number: 1 // (99 - number)).sink_to(sink)

    with pytest.raises(Exception, match="ZeroDivisionError"):
        env.execute()

    assert lines_of(tmp_path) == Counter()

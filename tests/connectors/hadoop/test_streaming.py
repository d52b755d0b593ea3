"""Programs of Hadoop Streaming as functions of a partition: what they read, what they write, and how they fail."""

import logging
import random
import shlex
import sys
from collections import Counter

import pytest

from funken.connectors.hadoop import StreamingMapper, StreamingReducer
from funken.dataset import ExecutionEnvironment
from funken.errors import InvalidProgram, JobExecutionError

MAPPER = """
import sys
for line in sys.stdin:
    for word in line.split():
        print(word, 1, sep="\\t")
        print("reporter:counter:words,seen,1", file=sys.stderr)
"""
REDUCER = """
import sys
last, total = None, 0
for line in sys.stdin:
    word, count = line.rstrip("\\n").split("\\t")
    if word != last and last is not None:
        print(last, total, sep="\\t")
        total = 0
    last, total = word, total + int(count)
if last is not None:
    print(last, total, sep="\\t")
"""


def python(code, *arguments):
    return [sys.executable, "-c", code, *arguments]


def test_a_job_of_two_programs_counts_words_as_python_does():
    chance = random.Random(1)
    lines = [" ".join(chance.choices(["to", "be", "or", "not", "that", "ü"], k=9)) for _ in range(500)]
    env = ExecutionEnvironment.create_local_environment(parallelism=3)
    words = env.from_collection(lines).map_partition(StreamingMapper(python(MAPPER)))
    sums = words.partition_by_hash(lambda pair: pair[0]).sort_partition(lambda pair: pair[0])
    found = sums.map_partition(StreamingReducer(python(REDUCER))).collect()

    assert {word: int(count) for word, count in found} == Counter(word for line in lines for word in line.split())
    assert len(found) == 6, "each word came to one reducer"


def test_more_than_any_pipe_holds_goes_through_in_both_directions():
    copy = StreamingMapper(python("import shutil, sys; shutil.copyfileobj(sys.stdin, sys.stdout)"))
    records = [(str(n), "x" * 1000) for n in range(5_000)]

    assert list(copy(records)) == records


def test_a_program_that_writes_only_when_it_has_read_everything_does_not_block():
    late = StreamingMapper(python("import sys; [print(line, end='') for line in sys.stdin.readlines()]"))

    assert len(list(late("y" * 1000 for _ in range(2_000)))) == 2_000


def test_a_program_may_stop_reading():
    assert list(StreamingMapper("head -n 1")(str(n) for n in range(100_000))) == [("0", "")]


def test_a_program_may_close_its_output_and_go_on_reading():
    program = StreamingMapper(["sh", "-c", "echo done; exec >&-; cat > /dev/null"])

    assert list(program("x" * 1000 for _ in range(20_000))) == [("done", "")]


def test_an_empty_partition_has_a_process_too():
    assert list(StreamingReducer(python("print('done')"))([])) == [("done", "")]


def test_a_program_that_fails_fails_the_task_with_what_it_said():
    failing = StreamingMapper(python("import sys; sys.stdin.readline(); sys.exit('no such column')"))
    with pytest.raises(JobExecutionError, match=r"ended with exit code 1.*\n.*no such column"):
        list(failing(["a", "b"]))


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(JobExecutionError, match="mapper '/no/such/program' cannot be started"):
        list(StreamingMapper("/no/such/program")(["a"]))


@pytest.mark.parametrize("command", ["", [], "  "])
def test_a_command_is_needed(command):
    with pytest.raises(InvalidProgram, match="needs a command"):
        StreamingReducer(command)


def test_a_record_with_a_line_break_is_refused_and_the_program_is_ended():
    with pytest.raises(InvalidProgram, match="is one line"):
        list(StreamingMapper("cat")(["one", "two\nthree"]))


def test_an_error_of_the_input_is_the_one_that_is_raised():
    def records():
        yield "one"
        raise KeyError("broken input")

    with pytest.raises(KeyError, match="broken input"):
        list(StreamingMapper("cat")(records()))


def test_who_wants_no_more_ends_the_program():
    forever = StreamingMapper(python("import sys\nwhile True: print('again', flush=True)"))
    found = forever(["go"])
    assert next(found) == ("again", "")
    found.close()


def test_counters_are_summed_and_other_lines_are_warnings(caplog):
    code = MAPPER + "print('a remark', file=sys.stderr); print('reporter:status:half way', file=sys.stderr)"
    with caplog.at_level(logging.INFO, "funken.connectors.hadoop"):
        assert len(list(StreamingMapper(shlex.join(python(code)))(["to be", "or"]))) == 3
    assert "counter words.seen is 3" in caplog.text
    assert "a remark" in caplog.text and "half way" in caplog.text


def test_another_separator():
    joined = StreamingMapper("cat", separator=": ")
    assert list(joined([("a", "1"), ("b", "2: 3")])) == [("a", "1"), ("b", "2: 3")]

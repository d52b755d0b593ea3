"""What user code logs: with its operator, limited, and only of the task at hand."""

import logging
import sys
import threading
from contextlib import contextmanager

import pytest

from funken import ProcessFunction, StreamExecutionEnvironment
from funken.config import Configuration
from funken.runtime.chain.log_capture import LogCapture, WorkerLogs, printing
from funken.runtime.log_entries import LONGEST, LogSettings
from funken.runtime.messages import TaskEnded, TaskId
from funken.runtime.settings import TaskSettings
from funken.testing import local

SHOP = logging.getLogger("shop")


@pytest.fixture
def capture():
    begun = []

    def begin(deliver, **options):
        settings = LogSettings(**options.pop("settings", {}))
        begun.append(LogCapture(settings, deliver, **options))
        begun[-1].install(set_level=True)
        return begun[-1]

    level = logging.getLogger().level
    yield begin
    for each in begun:
        each.uninstall()
    assert logging.getLogger().level == level


def test_a_record_has_its_level_its_text_and_its_traceback(capture):
    found = []
    capture(found.extend, threaded=False, subtask=3, attempt=1)

    SHOP.info("sold %d", 7)
    try:
        raise KeyError("apples")
    except KeyError:
        SHOP.exception("no price")

    assert [(each.level, each.logger, each.subtask, each.attempt) for each in found] == [
        (logging.INFO, "shop", 3, 1),
        (logging.ERROR, "shop", 3, 1),
    ]
    assert found[0].message == "sold 7"
    assert found[1].message.startswith("no price\nTraceback") and "KeyError: 'apples'" in found[1].message


def test_what_is_below_the_level_is_not_taken(capture):
    found = []
    capture(found.extend, threaded=False, settings={"level": logging.WARNING})

    SHOP.info("quiet")
    SHOP.warning("loud")

    assert [each.message for each in found] == ["loud"]


def test_a_record_whose_text_cannot_be_made_is_told_of(capture):
    found = []
    handler = capture(found.extend, threaded=False)

    handler.handle(logging.LogRecord("shop", logging.INFO, __file__, 1, "%d apples", ("many",), None))

    assert found[0].message.startswith("'%d apples' (its text raises TypeError")


def test_a_record_that_is_too_long_is_cut(capture):
    found = []
    capture(found.extend, threaded=False)

    SHOP.info("x" * (2 * LONGEST))

    assert len(found[0].message) < LONGEST + 100 and found[0].message.endswith("more characters)")


def test_records_above_the_rate_are_dropped_and_counted(capture):
    found = []
    handler = capture(found.extend, settings={"rate": 2})
    for number in range(500):
        SHOP.info("%d", number)
    handler.flush()

    assert [each.message for each in found[:3]] == ["0", "1", "2"]
    shown, dropped = [each for each in found if each.logger == "shop"], found[-1]
    assert len(shown) < 100
    assert dropped.message == f"{500 - len(shown)} log records were dropped: more than 2 a second (env.log.rate-limit)."
    assert dropped.level == logging.WARNING


def test_a_worker_sends_by_a_thread_that_begins_with_the_first_record(capture):
    arrived = threading.Event()
    found = []

    def deliver(entries):
        found.append((threading.current_thread().name, [each.message for each in entries]))
        arrived.set()

    capture(deliver)
    assert "funken-logs" not in {each.name for each in threading.enumerate()}
    SHOP.info("one")

    assert arrived.wait(30)
    assert found == [("funken-logs", ["one"])]


def test_a_driver_that_is_gone_does_not_fail_what_logs(capture):
    def deliver(entries):
        raise BrokenPipeError

    handler = capture(deliver)
    SHOP.info("to nobody")
    handler.flush()


class Tells(ProcessFunction):
    def process_element(self, value, ctx):
        helper(value)
        yield value


def helper(value):
    SHOP.info("saw %s", value)


def test_the_innermost_operator_on_the_stack_is_named(capture):
    found = []
    capture(found.extend, threaded=False, subtask=0)
    from funken.testing import local

    stream = local(["to"]).process(Tells()).name("tell").uid("teller")
    stream.map(lambda word: (SHOP.info("mapped"), word)[1]).name("shout").for_each(lambda word: SHOP.info("done")).name(
        "end"
    )
    stream.get_execution_environment().execute("words")

    assert [(each.operator, each.message) for each in found if each.logger == "shop"] == [
        ("tell", "saw to"),
        ("shout", "mapped"),
        ("end", "done"),
    ]
    assert found[0].operator_id == "teller"


def test_what_is_printed_is_logged_by_line(capture):
    found = []
    capture(found.extend, threaded=False)

    with printing("log"):
        sys.stdout.write("one 1\n")
        sys.stdout.write("two")
        sys.stdout.write("!\n")
        sys.stderr.write("hm\n")

    assert [(each.logger, each.message) for each in found] == [
        ("stdout", "one 1"),
        ("stdout", "two!"),
        ("stderr", "hm"),
    ]


def test_a_handler_of_the_program_that_writes_to_the_same_stream_does_not_go_round(capture):
    found = []
    capture(found.extend, threaded=False)

    with printing("log"):
        handler = logging.StreamHandler(sys.stderr)
        logging.getLogger().addHandler(handler)
        try:
            sys.stderr.write("hm\n")
        finally:
            logging.getLogger().removeHandler(handler)

    assert [each.message for each in found] == ["hm"]


def test_what_is_printed_is_ignored(capsys):
    with printing("ignore"):
        sys.stdout.write("one\n")

    assert capsys.readouterr().out == ""


def test_a_process_that_is_used_again_is_left_as_it_was(capture):
    sent = []
    handlers, out = list(logging.getLogger().handlers), sys.stdout
    settings = TaskSettings(attempt=2, logs=LogSettings(system_out="log"))

    logs = WorkerLogs(TaskId(1, 4), settings, "worker-1", sent.append)
    sys.stdout.write("printed\n")
    logs.before_the_end(sent.append)(TaskEnded(TaskId(1, 4)))
    logs.close()
    SHOP.info("later")

    assert (logging.getLogger().handlers, sys.stdout) == (handlers, out)
    event, ended = sent  # what was logged before the end, before the end
    assert isinstance(ended, TaskEnded)
    assert (event.task, event.host, [each.message for each in event.entries]) == (TaskId(1, 4), "worker-1", ["printed"])
    assert (event.entries[0].subtask, event.entries[0].attempt) == (4, 2)


def test_settings_are_read():
    given = Configuration({"env.log.level": "WARN", "taskmanager.system-out.mode": "LOG", "env.log.rate-limit": 5})

    assert LogSettings.of(given) == LogSettings(logging.WARNING, True, 5, "log")
    assert LogSettings.of(Configuration()) == LogSettings()


@contextmanager
def without_handlers():
    """A program that has not configured logging; pytest's own handlers are put aside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.getLogger(), "handlers", [])
        yield
        assert logging.getLogger().handlers == []


def warned(number):
    SHOP.info("not to be seen")
    SHOP.warning("no price for %d", number)
    return number


def test_warnings_are_written_although_a_job_listens_to_them(capsys):
    """Funken's own warnings too, such as of late records: without this they were seen at the end of the job at best."""
    with without_handlers():
        assert local([1, 2]).map(warned).execute_and_collect(limit=2) == [1, 2]

    assert capsys.readouterr().err == "no price for 1\nno price for 2\n"


def test_what_is_written_has_no_secrets_and_no_forged_lines(capsys):
    capture = LogCapture(
        LogSettings(), lambda entries: None, threaded=False, mask=lambda text: text.replace("hunter2", "******")
    )
    with without_handlers():
        capture.install(set_level=False, prints=True)
        SHOP.warning("password %s\nERROR paid by nobody\x1b[2J", "hunter2")
        try:
            raise ValueError("hunter2 is refused")
        except ValueError:
            SHOP.exception("no price")
        capture.uninstall()

    written = capsys.readouterr().err
    assert written.startswith("password ******\n    ERROR paid by nobody\\x1b[2J\nno price\nTraceback")
    assert written.endswith("ValueError: ****** is refused\n")


def test_a_job_masks_what_it_writes(capsys):
    conf = Configuration({"execution.target": "local", "pipeline.global-job-parameters": "db.password:hunter2hunter2"})
    env = StreamExecutionEnvironment.get_execution_environment(conf)
    with without_handlers():
        env.from_collection(["hunter2hunter2"]).for_each(lambda key: SHOP.warning("the key is %s", key))
        env.execute()

    assert capsys.readouterr().err == "the key is ******\n"


def test_with_two_jobs_they_are_written_once(capsys):
    first = LogCapture(LogSettings(), lambda entries: None, threaded=False)
    second = LogCapture(LogSettings(), lambda entries: None, threaded=False)
    with without_handlers():
        for each in (first, second):
            each.install(set_level=False, prints=True)
        SHOP.warning("once")
        first.uninstall()
        SHOP.warning("again")
        second.uninstall()
        SHOP.warning("as ever")

    assert capsys.readouterr().err == "once\nagain\nas ever\n"


def test_what_a_handler_of_the_program_takes_is_not_written(monkeypatch, capsys):
    taken = []
    monkeypatch.setattr(SHOP, "handlers", [HandlerOf(taken)])
    with without_handlers():
        local([1]).map(warned).execute_and_collect(limit=1)

    assert (taken, capsys.readouterr().err) == (["no price for 1"], "")


class HandlerOf(logging.Handler):
    def __init__(self, taken):
        super().__init__(logging.WARNING)
        self.taken = taken

    def emit(self, record):
        self.taken.append(record.getMessage())

"""``funken run`` and ``funken explain``, in this process: what they change is put back after each test."""

import json
import sys
from concurrent.futures import Future
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from funken.api.jobs import results as watching
from funken.api.jobs.results import CompletableFuture
from funken.cli.main import main
from funken.cli.run import waiting_for_jobs
from funken.config import Configuration, set_default_configuration


@pytest.fixture(autouse=True)
def put_back(monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    set_default_configuration(Configuration())


@pytest.fixture
def run(tmp_path):
    """Write a script and hand it to a command; ``arguments`` with a ``{}`` where the script goes."""
    script = tmp_path / "job.py"

    def invoke(code, *arguments):
        script.write_text(code)
        filled = [str(script) if argument == "{}" else argument for argument in arguments or ("run", "{}")]
        return CliRunner().invoke(main, filled)

    return invoke


PROGRAM = """\
from dataclasses import dataclass
from funken import StreamExecutionEnvironment

@dataclass(frozen=True)
class Sale:
    what: str
    count: int

env = StreamExecutionEnvironment.get_execution_environment()
sales = env.from_collection([Sale("tea", 1), Sale("cake", 2), Sale("tea", 3)])
sums = sales.key_by(lambda sale: sale.what).reduce(lambda a, b: Sale(a.what, a.count + b.count))
"""


def test_a_script_runs_as_python_would_run_it(run, tmp_path):
    (tmp_path / "beside_the_script.py").write_text("WORD = 'found'\n")

    done = run(
        "import sys, beside_the_script\nprint(__name__, sys.argv[1:], beside_the_script.WORD)",
        "run",
        "{}",
        "-p",
        "--name=x",
    )

    assert done.output == "__main__ ['-p', '--name=x'] found\n"


def test_an_option_of_flink_without_effect_is_accepted_with_a_warning(run):
    done = run("print('ran')", "run", "-D", "taskmanager.numberOfTaskSlots=4", "{}")

    assert done.stdout == "ran\n"
    assert done.stderr.startswith("Warning: option 'taskmanager.numberOfTaskSlots' has no effect here because Spark")
    assert done.stderr.count("numberOfTaskSlots") == 1


def test_classes_of_the_script_travel(run):
    done = run(PROGRAM + "sums.print()\nenv.execute()", "run", "--target", "local", "-p", "2", "{}")

    assert sorted(line[3:] for line in done.output.splitlines()) == [
        "Sale(what='cake', count=2)",
        "Sale(what='tea', count=1)",
        "Sale(what='tea', count=4)",
    ]


ASK = """\
from funken import Configuration, StreamExecutionEnvironment
environment = StreamExecutionEnvironment.get_execution_environment
print(environment().get_parallelism(), environment(Configuration({"parallelism.default": 7})).get_parallelism(),
      environment().set_parallelism(8).get_parallelism(), environment().get_buffer_timeout())
"""


def test_options_are_what_environments_begin_with_and_the_script_wins(run):
    done = run(ASK, "run", "-p", "3", "-D", "execution.buffer-timeout.interval=5 s", "{}")

    assert done.output == "3 7 8 5000\n"


def test_a_name_is_for_jobs_that_have_none(run):
    named = PROGRAM + "sums.print()\nprint(env.compile().name, env.compile('own').name)"

    assert run(named, "run", "--name", "sums", "{}").stdout == "sums own\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-D", "parallelism.default"], "'parallelism.default' is not of the form KEY=VALUE."),
        (["-D", "paralelism.default=2"], "Did you mean 'parallelism.default'?"),
        (["-D", "parallelism.default=two"], "'two' is no whole number"),
        (["-D", "execution.checkpointing.intervall=5s"], "Did you mean 'execution.checkpointing.interval'?"),
        (["-D", "execution.checkpointing.interval=-5s"], "it must be 0 or more, or -1"),
        (["-p", "0"], "0 is not in the range"),
        (["--target", "moon"], "'moon' is not one of"),
        (["nowhere.py"], "'nowhere.py' does not exist"),
    ],
)
def test_a_wrong_command_line(run, arguments, message):
    done = run("print('not run')", "run", *arguments, "{}")

    assert done.exit_code == 2
    assert message in done.output


FAILING = """\
from funken import StreamExecutionEnvironment

def inverse(x):
    return 1 / x

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([0]).map(inverse).print()
env.execute("division")
"""


def test_a_function_that_raises(run, tmp_path):
    done = run(FAILING, "run", "--target", "local", "{}")

    assert done.exit_code == 1
    assert done.stderr.startswith("Error: operator 'map' (subtask 0) failed at the record 0: ZeroDivisionError")
    assert ", in inverse\n    return 1 / x" in done.stderr
    assert f'in {tmp_path / "job.py"}, line 8: env.execute("division")' in done.stderr
    assert "funken/runtime" not in done.stderr


def test_an_error_of_the_script(run, tmp_path):
    done = run("def f():\n    return missing\nf()")

    assert done.exit_code == 1
    assert done.stderr.splitlines()[:2] == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path / "job.py"}", line 3, in <module>',
    ]
    assert done.stderr.splitlines()[-1] == "NameError: name 'missing' is not defined"


@pytest.mark.parametrize(
    ("code", "exit_code"), [("raise SystemExit(3)", 3), ("raise KeyboardInterrupt", 130), ("x = = 1", 1), ("", 0)]
)
def test_exit_codes(run, code, exit_code):
    assert run(code).exit_code == exit_code


def test_a_job_that_still_runs_is_waited_for(run):
    done = run(PROGRAM + "sums.print()\nenv.execute_async('sums')", "run", "--target", "local", "-p", "1", "{}")

    assert "Sale(what='tea', count=4)" in done.stdout
    assert done.exit_code == 0


def test_a_job_is_stopped_when_the_script_fails(run):
    endless = """\
from funken import *
env = StreamExecutionEnvironment.get_execution_environment()
source = DataGeneratorSource(lambda index: index)
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").for_each(lambda number: None)
client = env.execute_async()
raise KeyError(client.get_job_status().result().name)
"""
    done = run(endless, "run", "--target", "local", "-p", "1", "--progress", "{}")

    assert done.exit_code == 1
    assert "Flink Streaming Job: cancelled after" in done.stderr
    assert done.stderr.endswith("KeyError: 'RUNNING'\n")


def test_a_batch_program_shows_how_far_it_is_on_stderr(run):
    begin = "from funken.dataset import ExecutionEnvironment\n"
    code = begin + "print(ExecutionEnvironment.get_execution_environment().from_elements(1, 2).count())"
    done = run(code, "run", "--target", "local", "-p", "1", "--progress", "{}")

    assert done.stdout == "2\n"
    assert "collect(): finished after" in done.stderr
    assert "2 records read" in done.stderr


def test_progress_goes_to_stderr(run):
    done = run(PROGRAM + "sums.print()\nenv.execute('sums')", "run", "--target", "local", "-p", "1", "--progress", "{}")

    assert "sums: finished after" in done.stderr
    assert "sums" not in done.stdout


ENDINGS = {
    "execute": "sums.print()\nenv.execute('sums')",
    "execute_async": "sums.print()\nclient = env.execute_async('sums')",
    "execute_and_collect": "print(list(sums.execute_and_collect('sums')))",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_explain_prints_the_plan_and_runs_nothing(run, ending):
    done = run(f"{PROGRAM}print('to stderr')\n{ENDINGS[ending]}", "explain", "-p", "2", "{}")

    assert done.exit_code == 0
    assert done.stdout.startswith("sums: 2 stages, 3 task slots\nstage 0 (width 1)\n  [0] collection\n")
    assert "Sale(" not in done.output
    assert done.stderr == "to stderr\n"


GOING_ON = {
    "the result is asked for": "client.get_job_execution_result().result()",
    "a savepoint is made": "client.trigger_savepoint('savepoints').result()",
    "errors are caught": "try:\n    client.cancel().result()\nexcept Exception:\n    pass\nraise SystemExit(9)",
}


@pytest.mark.parametrize("how", GOING_ON)
def test_explain_ends_a_script_that_goes_on_after_execute_async(run, how):
    asynchronous = f"{ENDINGS['execute_async']}\nprint('went on')\n{GOING_ON[how]}"
    done = run(PROGRAM + asynchronous, "explain", "--target", "local", "{}")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("sums: 2 stages")


BATCH = """
from funken.dataset import ExecutionEnvironment
def shown(number):
    print("runs")
    return number
env = ExecutionEnvironment.get_execution_environment()
numbers = env.from_elements(1, 2).map(shown)
"""


@pytest.mark.parametrize("ending", ["numbers.count()", "numbers.write_as_text('out')\nenv.execute('texts')"])
def test_explain_prints_the_plan_of_a_batch_program_and_runs_nothing(run, ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(BATCH + ending, "explain", "--target", "local", "{}")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("Plan, costs: ")
    assert not (tmp_path / "out").exists()

    done = run(BATCH + ending, "explain", "--target", "local", "--json", "{}")
    assert "driver_strategy" in json.dumps(json.loads(done.stdout))


def test_explain_prints_json(run):
    done = run(PROGRAM + "sums.print()\nenv.execute('sums')", "explain", "--json", "--target", "local", "{}")

    assert json.loads(done.stdout)["name"] == "sums"


def test_explain_needs_an_execute(run):
    done = run("print('nothing')", "explain", "{}")

    assert done.exit_code == 1
    assert "ended without a call of execute()" in done.stderr


class Client:
    """A job as those who watch see it: it is over when its result is asked for, or never."""

    def __init__(self, name, over, ends=True):
        self.plan = SimpleNamespace(name=name)
        self.over, self.ends = over, ends
        self.watched = ExitStack()
        for watch in watching.watchers():
            self.watched.enter_context(watch(self))

    def get_job_execution_result(self):
        self.watched.close()
        self.over.append(self.plan.name)
        return CompletableFuture.of(None)

    def suspend(self):
        return CompletableFuture.of(None) if self.ends else CompletableFuture(Future())


def test_every_job_that_still_runs_is_waited_for():
    over = []
    with waiting_for_jobs():
        for name in ("first", "second", "third"):
            Client(name, over)

    assert over == ["first", "second", "third"]


def test_a_job_that_cannot_be_stopped_is_named_and_not_waited_for_for_ever(monkeypatch, capsys):
    monkeypatch.setattr("funken.cli.run._STOP_SECONDS", 0.01)

    with pytest.raises(KeyError), waiting_for_jobs():
        clients = [Client("deaf", [], ends=False), Client("other", [])]
        raise KeyError

    assert "'deaf' has not stopped" in capsys.readouterr().err
    assert len(clients) == 2


def test_sigterm_in_a_function_of_the_program_is_no_failure_of_it(run):
    done = run(
        "import signal\n" + PROGRAM + "sums.map(lambda sale: signal.raise_signal(signal.SIGTERM)).print()\nenv.execute()",
        "run", "--target", "local", "-p", "1", "{}",
    )  # fmt: skip

    assert (done.exit_code, done.stderr) == (143, "")


def test_a_program_that_is_never_executed_is_warned_of(run):
    done = run(PROGRAM + "sums.print()", "run", "--target=local", "{}")

    assert done.exit_code == 0
    assert "built a program that never ran: collection -> reduce -> print. Nothing runs before execute()" in done.output


def test_a_script_that_executes_its_program_or_has_none_is_not(run):
    assert "never ran" not in run(PROGRAM + "sums.print()\nenv.execute()", "run", "--target=local", "{}").output
    assert run("print('other')", "run", "{}").output == "other\n"


def test_a_script_that_fails_is_not_told_that_its_program_never_ran(run):
    script = PROGRAM + "sums.print()\nraise ValueError('no key')"
    done = run(script, "run", "--target", "local", "{}")

    assert "no key" in str(done.exception or "") + done.stderr
    assert "never ran" not in done.stderr


def test_a_script_for_pyflink_is_told_the_option(run):
    done = run('raise ModuleNotFoundError("No module named \'pyflink\'", name="pyflink.table")', "run", "{}")

    assert done.exit_code == 1
    assert "A script for PyFlink runs with: funken run --pyflink " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "book.ipynb"), "'book.ipynb' is a notebook, and no script. Run its cells in Jupyter"),
        (
            ("run", "package"),
            "can't find '__main__' module in 'package': it is a folder. Name the script in it, or a module with -m",
        ),
        (("run", "job.jar"), "'job.jar' is a program of Java. Funken runs programs of Python"),
        (("run", "job.sql"), "'job.sql' is a script of SQL. Run it with: funken sql -f FILE."),
        (("run", "-py", "job.py"), "Flink's -py is not needed: funken run job.py"),
        (("sql", "SELECT 1 AS n"), "'SELECT 1 AS n' is a statement, and no file. Give it with -e"),
        (("rnu", "job.py"), "No such command 'rnu'. Did you mean 'run'?"),
        (("job.py",), "No such command 'job.py'. A script runs with: funken run job.py"),
        (("submit", "job.py"), "No such command 'submit'. A script runs with: funken run job.py"),
        (("help", "run"), "The options of a command: funken COMMAND --help"),
        (("run", "--set", "parallelism.default=2", "job.py"), "-D KEY=VALUE sets an option."),
        (("list", "-m", "localhost:8081"), "--url http://HOST:PORT names a driver."),
    ],
)
def test_a_mistyped_command_is_answered(tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    for name in ("book.ipynb", "job.jar", "job.sql"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "package").mkdir()
    found = CliRunner().invoke(main, arguments)

    assert found.exit_code == (1 if arguments[-1] == "package" else 2)  # 1 as of Python
    assert told in found.stderr

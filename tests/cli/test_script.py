"""``funken run JOB.py`` is ``python JOB.py``: programs run both ways, and all that they can see is the same.

A probe prints what a module, its classes, its processes and threads see of their surroundings; the programs that end in
some other way than at their last line are compared by what they print and by their exit code.
"""

import json
import os
import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from funken.cli.main import main
from funken.config import Configuration, set_default_configuration

NAMES = """\
import sys
names = {name: repr(value).split(" at 0x")[0] for name, value in dict(globals()).items() if name[:2] == "__"}
names["__builtins__"] = type(__builtins__).__name__
import dataclasses, doctest, inspect, json, os, pickle, typing, warnings


@dataclasses.dataclass
class Order:
    '''An order.

    >>> Order("a", 1).count
    1
    '''

    shop: str
    count: int


def first(order: Order) -> str:
    return order.shop


found = {"shop": "t\\u00e9a".encode().decode()}
count: int = 3
names |= {
    "argv": sys.argv,
    "path": sys.path[0],
    "types": [field.type.__name__ for field in dataclasses.fields(Order)],
    "hints": str(first.__annotations__),
    "variables": str(__annotations__),
    "pickled": pickle.dumps(Order("a", 1)).hex(),
    "again": pickle.loads(pickle.dumps(Order("a", 1))) == Order("a", 1),
    "source": inspect.getsource(first),
    "file": inspect.getsourcefile(Order),
    "module": inspect.getmodule(first).__name__,
    "main": sys.modules["__main__"] is __import__("__main__"),
    "doctest": str(doctest.testmod()),
    "filters": [str(each) for each in warnings.filters],
    "code": [first.__code__.co_filename, first.__code__.co_flags],
    "excepthook": sys.excepthook is sys.__excepthook__,
    "locals": locals() is globals(),
    "cwd": os.getcwd(),
}
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    warnings.warn("old", DeprecationWarning)
names["warned"] = [f"{each.filename}:{each.lineno}" for each in seen]
"""

PROBE = (
    NAMES
    + """
import atexit, multiprocessing, threading, time, concurrent.futures


def squared(number):
    return number * number, __name__, __file__


if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        names["spawned"] = pool.submit(squared, 3).result()
    print(json.dumps(names))
    main = threading.main_thread()
    atexit.register(print, "the last line", flush=True)
    threading.Thread(target=lambda: (main.join(), print("outlived the main thread"))).start()
    print("to be seen", file=sys.stderr)
    warnings.warn("old", DeprecationWarning)
    sys.exit(7)
"""
)


@pytest.fixture(autouse=True)
def put_back(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.chdir(tmp_path)
    yield
    set_default_configuration(Configuration())


def python(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def funken(*arguments, command="run"):
    """Run a command in this process, in which only the search path is another one."""
    done = CliRunner().invoke(main, [command, *arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_program_sees_what_it_sees_under_python(tmp_path, command):
    Path("probe.py").write_text(PROBE)
    arguments = ["probe.py", "-p", "--name=x"]

    code, out, err = python(*arguments)
    ours = python("-m", "funken", command, *arguments)

    printed = ours[2] if command == "explain" else ours[1]  # what a script prints while it is explained goes to stderr
    shown = [line for line in printed.splitlines() if line[:1] == "{"]
    assert json.loads(shown[0]) == json.loads(out.splitlines()[0])
    assert code == ours[0] == 7
    assert sorted((ours[1] + ours[2]).splitlines()) == sorted((out + err).splitlines())


def plain(folder):
    (folder / "job.py").write_text(NAMES + "print(json.dumps(names))")
    return ["job.py"]


def below(folder):
    (folder / "jobs").mkdir()
    plain(folder / "jobs")
    return ["./jobs/../jobs/job.py", "-m", "x"]


def absolute(folder):
    return [str(folder / plain(folder)[0])]


def linked(folder):
    below(folder)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "link.py").symlink_to("../jobs/job.py")
    return ["elsewhere/link.py"]


def through_a_linked_folder(folder):
    below(folder)
    (folder / "current").symlink_to("jobs")
    return ["current/job.py"]


def a_folder(folder):
    below(folder)
    (folder / "jobs" / "job.py").rename(folder / "jobs" / "__main__.py")
    return ["jobs", "x"]


def a_zip_file(folder):
    plain(folder)
    with zipfile.ZipFile(folder / "app.pyz", "w") as app:
        app.write(folder / "job.py", "__main__.py")
    return ["app.pyz", "x"]


def a_module(folder):
    below(folder)
    return ["-m", "jobs.job", "--name", "x"]


def a_package(folder):
    a_folder(folder)
    return ["-m", "jobs", "x"]


def compiled(folder):
    plain(folder)
    py_compile.compile("job.py", "job.pyc", dfile="job.py")
    return ["job.pyc"]


def with_a_byte_order_mark(folder):
    plain(folder)
    (folder / "job.py").write_bytes(b"\xef\xbb\xbf" + (folder / "job.py").read_bytes().replace(b"\n", b"\r\n"))
    return ["job.py"]


def in_another_encoding(folder):
    code = NAMES.replace("names = {", "# \xe9\nword = '\xe9\xa4'\nnames = {")
    text = f"# -*- coding: latin-1 -*-\n{code}names['word'] = word\nprint(json.dumps(names))"
    (folder / "job.py").write_bytes(text.encode("latin-1"))
    return ["job.py"]


def with_a_docstring_and_a_future(folder):
    code = f"'''About.'''\nfrom __future__ import annotations\n{NAMES}".replace("field.type.__name__", "field.type")
    (folder / "job.py").write_text(code + "print(json.dumps(names))")
    return ["job.py"]


LAYOUTS = [plain, below, absolute, linked, through_a_linked_folder, a_folder, a_zip_file, a_module, a_package, compiled]
LAYOUTS += [with_a_byte_order_mark, in_another_encoding, with_a_docstring_and_a_future]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
def test_a_program_is_found_and_named_as_python_does_it(tmp_path, layout):
    arguments = layout(tmp_path)

    code, out, err = python(*arguments)
    ours = funken(*arguments)

    assert (code, err) == (0, "")
    assert (ours[0], ours[2]) == (0, "")
    expected, seen = json.loads(out), json.loads(ours[1])
    del expected["filters"], seen["filters"]  # pytest has its own
    assert seen == expected


ENDS = {
    "no end": "pass",
    "exit": "import sys; sys.exit()",
    "exit 0": "raise SystemExit(0)",
    "exit 3": "import sys; sys.exit(3)",
    "exit 259": "import sys; sys.exit(259)",
    "exit -1": "import sys; sys.exit(-1)",
    "exit True": "import sys; sys.exit(True)",
    "exit with a text": "import sys; sys.exit('no input')",
    "exit with a tuple": "import sys; sys.exit((1, 2))",
    "os._exit is not called by an exception": "import os\ntry:\n    raise SystemExit(4)\nfinally:\n    print('cleaned')",
    "error": "def f(x):\n    return 1 / x\n\n\nf(0)",
    "carets": "a = {'b': {}}\nprint(a['b']['c'], a['b'])",
    "suggestion of a name": "orders = 1\nprint(oders)",
    "suggestion in a function": "def f():\n    total = 1\n    return totl\nf()",
    "suggestion of an attribute": "import math\nmath.sqt(2)",
    "suggestion of an import": "from math import sqt",
    "no module": "import nowhere_at_all",
    "cause": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('bad') from error",
    "context": "def f():\n    1 / 0\ntry:\n    f()\nexcept ZeroDivisionError:\n    int('x')",
    "note": "error = ValueError('bad')\nerror.add_note('in line 7')\nraise error",
    "group": "raise ExceptionGroup('both', [ValueError('a'), TypeError('b')])",
    "recursion": "def f():\n    f()\nf()",
    "lines of a text": "raise ValueError('first\\nsecond')",
    "syntax": "x = 1\ny = = 2",
    "indentation": "if True:\nx = 1",
    "unclosed": "print((1, 2)",
    "no encoding": b"x = 1\ny = '\xff'",
    "syntax warning": "x = 1 is 1\nassert (x, 'always')",
    "escape warning": "x = '\\d'",
    "base exception": "class Stop(BaseException):\n    pass\nraise Stop('now')",
    "generator exit": "raise GeneratorExit",
    "cancelled": "import asyncio\nraise asyncio.CancelledError",
    "error of click": "import click\nraise click.ClickException('bad')",
    "abort of click": "import click\nraise click.Abort",
    "exit of click": "import click\nraise click.exceptions.Exit(5)",
    "command of click": "import click\n@click.command()\n@click.argument('x')\ndef f(x): pass\nf()",
    "arguments": "import argparse\nargparse.ArgumentParser().parse_args(['--x'])",
    "hook": "import sys\nsys.excepthook = lambda kind, error, trace: print(kind, error, trace.tb_lineno)\n1 / 0",
    "end of input": "raise EOFError",
    "pipe": "raise BrokenPipeError(32, 'Broken pipe')",
    "warning": "import warnings\nwarnings.warn('mind')",
    "deprecation": "import warnings\ndef f():\n    warnings.warn('old', DeprecationWarning, stacklevel=2)\nf()",
    "unittest": "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\nunittest.main(verbosity=0)",
}
OF_THE_PROCESS = {
    "warning",
    "deprecation",
    "syntax warning",
    "escape warning",
    "unittest",
}  # pytest makes errors of warnings
OF_THE_PROCESS |= {"exit with a text", "exit with a tuple"}  # click's runner prints them elsewhere


def without_figures(text):
    return [line for line in text.splitlines() if not line.startswith(("Ran ", "  [Previous line repeated"))]


@pytest.mark.parametrize("how", ENDS)
def test_a_program_ends_as_under_python(tmp_path, how):
    program = ENDS[how]
    Path("job.py").write_bytes(program if isinstance(program, bytes) else program.encode())

    code, out, err = python("job.py")
    ours = python("-m", "funken", "run", "job.py") if how in OF_THE_PROCESS else funken("job.py")

    assert without_figures(ours[2]) == without_figures(err)
    assert ours[1] == out
    assert ours[0] & 0xFF == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["empty"], "can't find '__main__' module in"),
        (["-m", "nowhere"], "No module named nowhere"),
        (["-m", "nowhere.job"], "Error while finding module specification for 'nowhere.job'"),
        (["-m", "empty"], "No module named empty.__main__; 'empty' is a package and cannot be directly executed"),
    ],
)
def test_what_cannot_be_run_is_refused_as_python_refuses_it(tmp_path, arguments, said):
    (tmp_path / "empty").mkdir()

    code, _, err = python(*arguments)
    ours = funken(*arguments)

    assert said in err
    assert said in ours[2]
    assert ours[0] == code == 1


def test_the_debugger_finds_the_last_error(tmp_path):
    Path("job.py").write_text("def f():\n    1 / 0\nf()")

    funken("job.py")

    assert isinstance(sys.last_value, ZeroDivisionError)
    assert sys.last_traceback.tb_frame.f_code.co_filename == os.path.abspath("job.py")

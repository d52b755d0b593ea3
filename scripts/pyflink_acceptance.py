"""Runs PyFlink's own tests and examples against Funken's compatibility layer, and prints what became of each.

    python scripts/pyflink_acceptance.py --tests flink/flink-python/pyflink/datastream/tests
    python scripts/pyflink_acceptance.py --examples download
    python scripts/pyflink_acceptance.py --tests ... --target continuous -k test_window_reduce

The tests are those of a checkout of apache/flink (what PyPI has does not contain them): the files ``test_*.py`` in the
folder given. ``--examples`` is the folder ``pyflink/examples/datastream`` of a checkout or a wheel, or ``download``,
which gets the wheel of PyFlink 2.3 with pip.

The base classes of the tests start a JVM; here they are those of ``funken.compat.pyflink.testing``. Where a test goes on
to ask the JVM itself, it is skipped, and the table says what it wanted there. An example is run as its users run it,
with ``funken run --pyflink``, and has to print what it prints with PyFlink (on Python objects, in any order).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import py4j.protocol

import funken.compat.pyflink
from funken.compat.pyflink import adoption, java, streams, testing
from funken.compat.pyflink.adoption import NotAvailableYet, NotInFunken
from funken.compat.pyflink.environment import StreamExecutionEnvironment
from funken.compat.pyflink.settings import Configuration
from funken.compat.pyflink.table_environments import StreamTableEnvironment, Table
from funken.config import set_default_configuration
from funken.errors import FunkenError
from funken.table.catalog import InMemoryCatalog
from funken.table.connectors.contract import ScanTable
from funken.table.connectors.factory import TableFactory, register_connector
from funken.timing.watermarks import WatermarkGenerator

assert funken.compat.pyflink, adoption
SECONDS = 120

# ---- stand-ins for what starts or asks the JVM


class PerElement(WatermarkGenerator):
    """What the tests' Java generator does: a watermark per record, at its timestamp."""

    def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
        """Emit."""
        output.emit_watermark(event_timestamp)


class Jvm:
    """A path into the JVM; following it is free, using it skips the test."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Jvm(f"{self.path}.{name}")

    def __call__(self, *args: Any) -> Any:
        """Do the two things that need no JVM; skip the test for all others."""
        if self.path.endswith("PerElementWatermarkGenerator.getSupplier"):
            return PerElement
        if self.path.endswith("WatermarkStrategy.forGenerator"):
            return args[0]
        if self.path.endswith("jvm.GenericInMemoryCatalog"):
            return InMemoryCatalog("default")
        raise unittest.SkipTest(f"JVM: {self.path.removeprefix('jvm.').replace('org.apache.flink', '...')}")

    def __iter__(self) -> Any:
        return self()

    __eq__ = __hash__ = None  # type: ignore[assignment]


class NoRows(ScanTable):
    """A table without rows."""

    def stream(self, env: Any) -> Any:
        """Return nothing."""
        return env.from_collection([])


class Collection(TableFactory):
    """Stands for the connector of Flink's planner tests, which is Java."""

    def scan(self, context: Any) -> ScanTable:
        """Return a table without rows."""
        return NoRows()


class Gateway:
    """The gateway."""

    jvm = Jvm("jvm")


class ComparedWithJava:
    """The base of tests that compare PyFlink's classes with Java's."""

    def test_completeness(self) -> None:
        """Skip."""
        raise unittest.SkipTest("JVM: Java's classes are asked for their methods")


def _set_string(configuration: Configuration, key: str, value: Any) -> Configuration:
    return configuration.set_string(key, value)


def _refused_module(name: str, names: tuple[str, ...]) -> None:
    """Let a module be imported whose use skips the test."""
    module = types.ModuleType(name)
    for each in names:
        setattr(module, each, Jvm(f"{name}.{each}"))
    sys.modules[name] = module


_SERIALIZERS = ("BatchedSerializer", "PickleSerializer")
_INSIDES_OF_TYPES = (
    "_array_signed_int_typecode_ctype_mappings", "_array_unsigned_int_typecode_ctype_mappings", "_from_java_data_type",
    "_to_java_data_type",
)  # fmt: skip


def stand_in(target: str) -> None:
    """Put the stand-ins where the tests look for the JVM."""
    java.get_gateway = Gateway  # type: ignore[assignment]
    java.get_j_env_configuration = lambda environment: environment._configuration  # type: ignore[assignment]
    Configuration.setString = _set_string  # type: ignore[attr-defined]
    Configuration.getValue = Jvm("Configuration.getValue")  # type: ignore[attr-defined]
    # Java's view of an environment is the environment; what it has not is asked of the JVM.
    missing = StreamExecutionEnvironment.__getattr__

    def ask(self: StreamExecutionEnvironment, name: str) -> Any:
        if name == "_j_stream_execution_environment":
            return self
        return (
            Jvm(f"StreamExecutionEnvironment.{name}")
            if re.fullmatch("[a-z]+([A-Z][a-z]+)+", name)
            else missing(self, name)
        )

    StreamExecutionEnvironment.__getattr__ = ask  # type: ignore[method-assign]
    streams.DataStream._j_data_stream = Jvm("DataStream")  # type: ignore[attr-defined]
    py4j.protocol.Py4JJavaError = FunkenError
    # PyFlink's own test base sets these.
    os.environ |= {"_python_worker_execution_mode": "process", "_PYTHON_WORKER_MEMORY_LIMIT": "0"}
    _refused_module("pyflink.find_flink_home", ("_find_flink_source_root",))
    table = importlib.import_module("pyflink.table")
    for each in ("CsvTableSource", "CsvTableSink"):
        setattr(table, each, Jvm(f"pyflink.table.{each}"))
    for kind, names in ((Table, ("_j_table",)), (StreamTableEnvironment, ("_j_tenv", "_get_j_env"))):
        for each in names:
            setattr(kind, each, Jvm(f"{kind.__name__}.{each}"))
    testing.PythonAPICompletenessTestCase = ComparedWithJava  # type: ignore[attr-defined]
    testing._load_specific_flink_module_jars = Jvm("jars")  # type: ignore[attr-defined]
    testing.__all__ += ["PythonAPICompletenessTestCase", "_load_specific_flink_module_jars"]
    serializers, types_ = importlib.import_module("pyflink.serializers"), importlib.import_module("pyflink.table.types")
    for module, names in ((serializers, _SERIALIZERS), (types_, _INSIDES_OF_TYPES)):
        for each in names:
            setattr(module, each, Jvm(f"{module.__name__}.{each}"))
    _refused_module("pyflink.fn_execution", ("state_impl",))
    _refused_module("pyflink.fn_execution.state_impl", ("RemovableConcatIterator",))
    register_connector("COLLECTION", Collection())
    configuration = Configuration().set_string("execution.target", target)
    set_default_configuration(configuration)


# ---- running

ON_PURPOSE = {
    "test_run_async_function_in_thread_mode": "PyFlink refuses async functions in its thread mode; Funken has one mode",
    "test_get_set_sql_dialect": "there is one dialect of SQL; another is refused where it is set",
    "test_over_window": "PyFlink's Table API orders OVER by time only; Funken's by any column",
    "test_invalid_pandas_udf": "PyFlink's test has one row in each batch; Funken's blocks have all that are there",
    "test_check_result_type": "PyFlink's pandas UDAFs cannot return a MAP; Funken's can",
}


class Verdict:
    """What became of one test or example."""

    def __init__(self, name: str, word: str, why: str = "") -> None:
        self.name, self.word, self.why = name, word, why


class Result(unittest.TestResult):
    """Keeps a verdict per test."""

    def __init__(self) -> None:
        super().__init__()
        self.verdicts: list[Verdict] = []

    def _add(self, test: Any, word: str, why: str = "") -> None:
        if word == "failed" and test._testMethodName in ON_PURPOSE:
            word, why = "skipped", f"on purpose: {ON_PURPOSE[test._testMethodName]}"
        self.verdicts.append(Verdict(f"{type(test).__name__}.{test._testMethodName}", word, why))

    def startTest(self, test: Any) -> None:
        """Begin to count the time."""
        super().startTest(test)
        signal.alarm(SECONDS)

    def stopTest(self, test: Any) -> None:
        """Stop counting the time."""
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test: Any) -> None:
        """Count it."""
        self._add(test, "passed")

    def addSkip(self, test: Any, reason: str) -> None:
        """Count it."""
        self._add(test, "skipped", reason)

    def addError(self, test: Any, err: Any) -> None:
        """Count it, unless what is missing is Java's or not there yet."""
        error = err[1]
        java_name = isinstance(error, AttributeError) and re.search(
            r"'(_j_\w+|get_java_\w+|get_\w*kryo\w*|get_\w*pojo\w*)'", str(error)
        )
        java_name = java_name or re.search(r"is the Java class (\S+),", str(error))
        if java_name or isinstance(error, NotInFunken):
            self._add(test, "skipped", f"JVM: {java_name[1] if java_name else error}")
        elif isinstance(error, NotAvailableYet):
            self._add(test, "skipped", f"not yet: {error}")
        else:
            self._add(test, "failed", f"{type(error).__name__}: {error}")

    def addFailure(self, test: Any, err: Any) -> None:
        """Count it."""
        self._add(test, "failed", f"{type(err[1]).__name__}: {err[1]}")


def expired(*_: Any) -> None:
    """End a test that does not end."""
    raise TimeoutError(f"no end after {SECONDS} s")


def flatten(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite."""
    for test in suite:
        yield from flatten(test) if isinstance(test, unittest.TestSuite) else (test,)


def _found(name: str, path: Path) -> tuple[types.ModuleType, Callable[[types.ModuleType], None]]:
    """Return the module of a file, and what loads it."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    return module, spec.loader.exec_module


def run_tests(folder: Path, only: str) -> dict[str, list[Verdict]]:
    """Run the test files of a folder."""
    verdicts = {}
    if folder.parent.name == "table":  # some tests import what others define
        for name in ("pyflink.table.tests", "pyflink.table.tests.test_types", "pyflink.table.tests.test_udf"):
            if name == "pyflink.table.tests":
                sys.modules[name] = types.ModuleType(name)
                continue
            with contextlib.suppress(ImportError, FileNotFoundError):
                shared, load = _found(name, folder / f"{name.rpartition('.')[2]}.py")
                load(shared)
                cloudpickle.register_pickle_by_value(shared)
    if folder.parent.name == "formats" and (folder / "test_avro.py").exists():  # others import it
        tests = types.ModuleType("pyflink.datastream.formats.tests")
        sys.modules[tests.__name__] = tests
        with contextlib.suppress(ImportError):
            avro, load = _found(f"{tests.__name__}.test_avro", folder / "test_avro.py")
            load(avro)
            cloudpickle.register_pickle_by_value(avro)
    for path in sorted(folder.glob("test_*.py")):
        if path.name == "test_util.py":
            continue
        module, load = _found(f"pyflink_acceptance_{path.stem}", path)
        try:
            load(module)
        except ImportError as error:
            verdicts[path.name] = [Verdict(path.name, "failed", f"import: {error}")]
            continue
        tests = [test for test in flatten(unittest.defaultTestLoader.loadTestsFromModule(module)) if only in test.id()]
        result = Result()
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            # The tests' classes are defined in modules that no worker can import.
            cloudpickle.register_pickle_by_value(module)
            signal.signal(signal.SIGALRM, expired)
            unittest.TestSuite(tests).run(result)
        verdicts[path.name] = result.verdicts
    return verdicts


EXAMPLES = {
    "basic_operations.py": [
        """(1, '{"name": "Flink", "tel": 124, "addr": {"country": "Germany", "city": "Berlin"}}')""",
        """(2, '{"name": "hello", "tel": 136, "addr": {"country": "China", "city": "Shanghai"}}')""",
        """(3, '{"name": "world", "tel": 125, "addr": {"country": "USA", "city": "NewYork"}}')""",
        """(4, '{"name": "PyFlink", "tel": 33, "addr": {"country": "China", "city": "Hangzhou"}}')""",
        """(1, '{"name": "Flink", "tel": 124, "addr": {"country": "Germany", "city": "Berlin"}}')""",
        "('Germany', 123)",
        "('China', 135)",
        "('USA', 124)",
        "('China', 167)",
    ],
    "event_time_timer.py": "timers",
    "process_json_data.py": [
        "(2, {'name': 'hello', 'tel': 136, 'addr': {'country': 'China', 'city': 'Shanghai'}})",
        "(4, {'name': 'PyFlink', 'tel': 33, 'addr': {'country': 'China', 'city': 'Hangzhou'}})",
    ],
    "state_access.py": "sums",
    "word_count.py": "words",
    "session_with_dynamic_gap_window.py": ["(hi,1,30,7)"],
    "session_with_gap_window.py": ["(hi,1,14,6)", "(hi,15,20,1)"],
    "sliding_time_window.py": [
        "(hi,-2,3,2)", "(hi,0,5,4)", "(hi,2,7,4)", "(hi,4,9,3)", "(hi,6,11,2)", "(hi,8,13,2)", "(hi,12,17,1)",
        "(hi,14,19,1)",
    ],
    "tumbling_count_window.py": ["(hi,4)", "(hello,6)", "(hello,12)"],
    "tumbling_time_window.py": ["(hi,0,5,4)", "(hi,5,10,3)", "(hi,15,20,1)"],
}  # fmt: skip


def rounded(lines: list[str]) -> list[tuple[str, int]]:
    """Return names and sums, whose last digits depend on when PyFlink stores a 32-bit float."""
    pairs = [re.fullmatch(r"(?:\d+> )?\('(\w+)', ([\d.]+)\)", line) for line in lines]
    return sorted((pair[1], round(float(pair[2]) * 10)) for pair in pairs if pair)


CHATTER = ("Executing ", "Use --", "Printing ")
"""What lines begin with that an example prints about itself."""


def as_expected(name: str, printed: list[str]) -> bool:
    """Tell whether an example printed what it should."""
    wanted = EXAMPLES[name]
    if wanted == "sums":
        sums = [("Alice", 1101), ("Bob", 302), ("Alice", 1301), ("Bob", 833), ("Alice", 1432), ("Bob", 864),
                ("Bob", 1025), ("Alice", 1633)]  # fmt: skip
        return rounded(printed) == sorted(sums)
    if wanted == "timers":  # at the end of the input every timer has fired with the final sum
        return rounded(printed) == sorted([("Alice", 1633)] * 4 + [("Bob", 1025)] * 4)
    if wanted == "words":
        counts = dict(re.fullmatch(r"\((.*),(\d+)\)", line).groups() for line in printed if line.startswith("("))  # type: ignore[union-attr]
        return len(counts) > 150 and counts["the"] == "15" and counts["To"] == "4"
    stripped = [re.sub(r"^\d+> ", "", line) for line in printed]
    return Counter(wanted) == Counter(line for line in stripped if not line.startswith(CHATTER))


def run_examples(folder: Path, target: str, only: str) -> list[Verdict]:
    """Run the scripts of a folder."""
    verdicts = []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if only not in name:
            continue
        command = [sys.executable, "-W", "ignore", "-c", "from funken.cli.main import main; main()", "run", "--pyflink"]
        done = subprocess.run(
            [*command, "--target", target, path], capture_output=True, text=True, timeout=300, check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        if done.returncode == 0 and path.name not in EXAMPLES:
            verdicts.append(Verdict(name, "passed", "ran; what it prints was not compared"))
        elif done.returncode == 0:
            good = as_expected(path.name, done.stdout.splitlines())
            verdicts.append(Verdict(name, "passed" if good else "failed", "" if good else f"printed {done.stdout!r}"))
        else:
            said = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
            refused = re.search("pyflink.table cannot be imported|is not available yet", done.stderr)
            verdicts.append(Verdict(name, "skipped" if refused else "failed", refused[0] if refused else said))
    return verdicts


@contextlib.contextmanager
def examples_folder(given: str) -> Iterator[Path]:
    """Yield the folder of the examples, for as long as it is needed."""
    if given != "download":
        yield Path(given)
        return
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "pip", "download", "-q", "apache-flink==2.3.*", "--no-deps", "-d", temporary]
        subprocess.run([*command, "--only-binary", ":all:"], check=True)
        wheel = next(Path(temporary).glob("*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith("pyflink/examples/datastream/")]
            archive.extractall(temporary, names)
        yield Path(temporary, "pyflink", "examples", "datastream")


# ---- the table


def show(title: str, verdicts: list[Verdict], everything: bool) -> None:
    """Print what became of the tests of one file."""
    counts = Counter(verdict.word for verdict in verdicts)
    print(f"\n{title}: " + ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "skipped")))
    for verdict in verdicts:
        if everything or verdict.word != "passed":
            why = " ".join(verdict.why.split())
            print(f"  {verdict.word:8} {verdict.name:72} {why[:160]}")


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tests", type=Path, help="folder with PyFlink's test_*.py")
    parser.add_argument("--examples", help="folder with PyFlink's examples, or 'download'")
    parser.add_argument("--target", default="local", choices=["local", "batch", "continuous"])
    parser.add_argument("-k", dest="only", default="", help="only tests whose name contains this")
    parser.add_argument("-v", dest="everything", action="store_true", help="list what passed, too")
    given = parser.parse_args()
    found: list[Verdict] = []
    if given.examples:
        with examples_folder(given.examples) as folder:
            verdicts = run_examples(folder, given.target, given.only)
        show("examples", verdicts, given.everything)
        found += verdicts
    if given.tests:
        stand_in(given.target)
        for name, verdicts in run_tests(given.tests, given.only).items():
            show(name, verdicts, given.everything)
            found += verdicts
    counts = Counter(verdict.word for verdict in found)
    print(f"\nall: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""What all tests share: the ways to run a program, and one Spark session for those that need it.

A test that takes the fixture ``mode``, or ``env`` which builds on it, runs once per way: in this process, as a Spark
batch job, in Spark's real-time mode. The two on Spark are marked ``spark``. A continuous job costs a second or two, so
a test that learns nothing from it says ``@pytest.mark.ways("local", "batch")``.

The session is Funken's own: the first job starts it, every other uses it, the end of the run stops it.
"""

import gc
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import cloudpickle
import pytest
from hypothesis import HealthCheck, Phase, settings

from funken import Configuration, StreamExecutionEnvironment
from funken.config import set_default_configuration
from funken.state.rocksdb.backend import TaskDatabases
from tests.support.java import BRIEF
from tests.support.streams import collected
from tests.support.tiers import is_slow

WAYS = ("local", "batch", "continuous")

# The same examples in every run, and no deadline: a busy machine must not fail a test. HYPOTHESIS_PROFILE=explore tries more.
settings.register_profile(
    "ci",
    max_examples=60,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
settings.register_profile("explore", deadline=None, max_examples=1000)
# For planted faults: that a test fails is all that counts, so the first example that does is not made smaller.
settings.register_profile("first", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure(config):
    config.addinivalue_line("markers", "ways(*modes): run in these ways only")
    # A shell that runs the tests in the background has SIGINT ignored, nohup SIGHUP, also for the programs that tests send it to.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", BRIEF)  # for JVMs that Funken does not start
    os.environ.setdefault("FUNKEN_RAISE_FAULTS", "1")  # a fault of the reader or a kernel fails the test that meets it


def pytest_generate_tests(metafunc):
    if "mode" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("ways")
        marks = {"batch": pytest.mark.spark, "continuous": pytest.mark.spark}
        metafunc.parametrize(
            "mode", [pytest.param(way, marks=marks.get(way, ())) for way in (marker.args if marker else WAYS)]
        )


def pytest_ignore_collect(collection_path, config):
    """Do not import what `make check` leaves out: every process of it would."""
    return True if "not slow" in config.option.markexpr and is_slow(collection_path) else None


def pytest_collection_modifyitems(items):
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    # Modules and collected tests stay to the end. To look at them in every collection was 7 to 15 % of the CPU time.
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    if _has_spark():
        sys.modules["pyspark"].SparkContext._active_spark_context.stop()


@contextmanager
def target_of_tier(node):
    """What is not marked ``spark`` or ``services`` runs in this process, also where a program names no target."""
    local = not any(map(node.get_closest_marker, ("spark", "services")))
    before = set_default_configuration(Configuration({"execution.target": "local"} if local else {}))
    yield local
    set_default_configuration(before)


@pytest.fixture(autouse=True, scope="module")
def target_of_fixtures(request):
    """Module by module, for fixtures that a module shares."""
    with target_of_tier(request.node):
        yield


@pytest.fixture(autouse=True)
def target_of_test(request):
    """Test by test; one that starts Spark fails if it is not marked."""
    with target_of_tier(request.node) as local:
        had = _has_spark()
        yield
        if local and _has_spark() and not had:
            pytest.fail("The test has started Spark: mark it with @pytest.mark.spark, or let its program run locally.")


def _has_spark():
    return "pyspark" in sys.modules and sys.modules["pyspark"].SparkContext._active_spark_context is not None


@pytest.fixture(autouse=True, scope="session")
def own_logs(tmp_path_factory):
    """Jobs on Spark leave their logs and archives in a folder of the tests, not in the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        for module in ("runtime.driver.job", "rest.archive"):
            patch.setattr(f"funken.{module}.cache_folder", lambda: folder)
        yield


@pytest.fixture(autouse=True, scope="module")
def travelling_module(request):
    """Let what a test module defines at its top travel to Spark's workers, which cannot import the module."""
    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture
def parallelism():
    """How many subtasks an operator has; parametrise it to try others."""
    return 2


@pytest.fixture
def environment(mode, parallelism):
    """Make environments; keyword arguments are options, with ``_`` for the dots and dashes that no two share."""

    def make(options=None):
        configuration = Configuration({"execution.target": mode, "parallelism.default": parallelism} | (options or {}))
        return StreamExecutionEnvironment.get_execution_environment(configuration)

    return make


@pytest.fixture
def env(environment):
    """An environment that runs in the way of the test."""
    return environment()


@pytest.fixture(scope="session")
def collect():
    """Run a program and return all records of a stream."""
    return collected


@pytest.fixture
def script(tmp_path):
    """Run a program as a script of its own, in an empty folder; an environment variable that is None is not there."""

    def run(source, *arguments, timeout=200, **environment):
        path = tmp_path / "program.py"
        path.write_text(source)
        return subprocess.run(
            [sys.executable, "-W", "error", path, *arguments],
            cwd=tmp_path,
            env={name: value for name, value in (child_environment() | environment).items() if value is not None},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


def child_environment():
    """What a child process needs to find Funken, wherever this one found it."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@pytest.fixture(scope="session")
def databases(tmp_path_factory):
    """What the databases of a task share; in memory where that is a folder, since opening one waits for the disk."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(tmp_path_factory.mktemp("databases"))
    shared = TaskDatabases(64 * 2**20, 0.5, place)
    yield shared
    shared.folder.remove()

"""Every program of the catalogue gives what its oracle says: in this process, as a Spark batch job, in real-time mode.

Each at parallelism 1, 2 and 4. In this process a program is a job of its own. On Spark all of them are one job, with a
collecting sink each: starting a job is what costs there, and any graph of operators will do. The job runs when the first
test asks for its results; each test looks at one program's.
"""

import functools

import pytest

from funken import Configuration, StreamExecutionEnvironment
from funken.operators.sink import CollectSink
from tests.flows.programs import changes, instances, joins, state, streams, windows  # noqa: F401 - each adds its programs
from tests.flows.programs.catalogue import PROGRAMS

PARALLELISMS = (1, 2, 4)


def results_of(mode, parallelism, names, folder):
    """Run programs as one job; return the records of each."""
    options = {"execution.target": mode, "pipeline.global-job-parameters": {"prefix": "n"}}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration(options)).set_parallelism(parallelism)
    for name in names:
        program = PROGRAMS[name]
        if program.writes:
            (folder / name).mkdir()
            program.build(env, str(folder / name))
        else:
            stream = program.build(env)
            stream._apply("collect", CollectSink(name), **stream._width())
    client = env._submit("programs")
    collectors = {name: client._collector(name) for name in names if not PROGRAMS[name].writes}
    for collector in collectors.values():
        collector.limit = float("inf")  # they are read one after the other, when the job is over
    client.run()

    found = {name: list(records_of(collector)) for name, collector in collectors.items()}
    for name in names:
        if PROGRAMS[name].writes:
            files = [path for path in (folder / name).rglob("*") if path.is_file()]
            assert all(path.name.startswith("part-") for path in files), "nothing unfinished is left"
            found[name] = [line for path in files for line in path.read_text().splitlines()]
    return found


def records_of(collector):
    while (block := collector.get()) is not None:
        yield from block


@functools.cache
def expected(name):
    return PROGRAMS[name].oracle()


@pytest.mark.parametrize("parallelism", PARALLELISMS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_in_this_process(name, parallelism, tmp_path):
    found = results_of("local", parallelism, [name], tmp_path)

    assert PROGRAMS[name].view(found[name]) == expected(name)


@pytest.fixture(scope="module")
def on_spark(request, tmp_path_factory):
    """The results of all programs, run as one job."""
    mode, parallelism = request.param
    return results_of(mode, parallelism, PROGRAMS, tmp_path_factory.mktemp("written"))


@pytest.mark.spark
@pytest.mark.parametrize(
    "on_spark", [(mode, p) for mode in ("batch", "continuous") for p in PARALLELISMS], indirect=True, scope="module",
    ids=lambda way: f"{way[0]}-{way[1]}",
)  # fmt: skip
@pytest.mark.parametrize("name", PROGRAMS)
def test_on_spark(on_spark, name):
    assert PROGRAMS[name].view(on_spark[name]) == expected(name)

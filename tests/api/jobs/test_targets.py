"""Which runner a program gets when nobody says."""

from types import SimpleNamespace

import pytest

from funken import Configuration, DataGeneratorSource, InvalidProgram, StreamExecutionEnvironment
from funken.api.submission import target_of

PLAIN = {"spark.app.name": "shop"}
MADE_FOR_IT = {"spark.python.udf.pipelined.enabled": "true"}


def session(settings):
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: settings))


def chosen(settings, bounded=True, **options):
    env = StreamExecutionEnvironment(Configuration())
    stream = env.from_collection([1]) if bounded else env.from_source(DataGeneratorSource(str))
    stream.map(str).print()
    configuration = Configuration({key.replace("_", "."): value for key, value in options.items()})
    return target_of(configuration, env.compile(), None, None if settings is None else session(settings))


def test_a_bounded_program_runs_as_a_batch_in_an_ordinary_session():
    assert chosen(PLAIN) == "batch"
    assert chosen(MADE_FOR_IT) == "continuous"
    assert chosen(PLAIN, bounded=False) == "continuous"  # which says what the session lacks


def test_a_target_that_is_named_is_taken():
    assert chosen(PLAIN, execution_target="local") == "local"
    assert chosen(PLAIN, execution_target="continuous") == "continuous"
    with pytest.raises(InvalidProgram, match="cannot run unbounded sources"):
        chosen(PLAIN, bounded=False, execution_target="batch")

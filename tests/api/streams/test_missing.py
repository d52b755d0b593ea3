"""What a stream has not: the error says where it is, and nothing claims to be there."""

import copy
import importlib
import re

import pytest

from funken.testing import local


@pytest.mark.parametrize(
    ("name", "instead"),
    [("window", ", or window_all()"), ("count_window", ", or count_window_all()"), ("sum", ""), ("reduce", "")],
)
def test_what_only_keyed_streams_have_says_so(name, instead):
    with pytest.raises(AttributeError) as told:
        getattr(local([1]), name)
    assert str(told.value).endswith(f"{name!r}: keyed streams have it, so call key_by() right before it{instead}")
    assert hasattr(local([1]).key_by(abs), name)


def test_other_attributes_are_missing_as_ever():
    stream = local([1])

    with pytest.raises(AttributeError, match=r"'DataStream' object has no attribute 'mapp'. Did you mean map\(\)\?$"):
        stream.mapp  # noqa: B018 - reading it is the test
    assert getattr(stream, "cache", None) is None
    assert copy.copy(stream).execute_and_collect(limit=1) == [1]


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("select", "map() makes new records"),
        ("groupBy", "use key_by()"),
        ("keyBy", "use key_by()"),
        ("toPandas", "use to_pandas()"),
    ],
)
def test_names_of_spark_and_of_java_say_what_there_is(name, instead):
    with pytest.raises(AttributeError) as told:
        getattr(local([1]), name)
    assert f"'DataStream' object has no attribute '{name}': {instead}" in str(told.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("read", "use read_json(), read_csv()"),
        ("sql", "StreamTableEnvironment has sql_query()"),
        ("fromCollection", "use from_collection()"),
    ],
)
@pytest.mark.parametrize("layer", ["funken", "pyflink.datastream"])
def test_an_environment_says_it_too(name, instead, layer):
    importlib.import_module("funken.compat.pyflink")
    env = importlib.import_module(layer).StreamExecutionEnvironment.create_local_environment(1)

    with pytest.raises(AttributeError, match=re.escape(instead)):
        getattr(env, name)
    assert getattr(env, "nothing", None) is None
    assert copy.copy(env).get_parallelism() == 1

"""What Flink's streams had once: the error says what to use instead, and nothing claims to be there."""

import copy

import pytest

from funken import DataStream
from funken.testing import local


@pytest.mark.parametrize("stream", [local([1]), local([1]).key_by(abs), local([1]).map(abs)])
def test_iterate_names_other_ways(stream):
    with pytest.raises(
        AttributeError, match=r"removed it in 2\.0.*iterate_delta.*set a timer.*a topic that the job reads"
    ):
        stream.iterate()

    assert not hasattr(stream, "iterate")
    assert not hasattr(DataStream, "iterate")


def test_the_layer_for_pyflink_says_the_same():
    from funken.compat.pyflink.environment import StreamExecutionEnvironment

    stream = StreamExecutionEnvironment.create_local_environment(1).from_collection([1])

    with pytest.raises(AttributeError, match=r"DataStream has no iterate\(\)"):
        stream.iterate(5000)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("window", ", or window_all()"), ("count_window", ", or count_window_all()"), ("sum", ""), ("reduce", "")],
)
def test_what_only_keyed_streams_have_says_so(name, instead):
    with pytest.raises(AttributeError) as told:
        getattr(local([1]), name)
    assert str(told.value).endswith(f"{name!r}: keyed streams have it, so call key_by() before{instead}")
    assert hasattr(local([1]).key_by(abs), name)


def test_other_attributes_are_missing_as_ever():
    stream = local([1])

    with pytest.raises(AttributeError, match="'DataStream' object has no attribute 'mapp'$"):
        stream.mapp  # noqa: B018 - reading it is the test
    assert getattr(stream, "cache", None) is None
    assert copy.copy(stream).execute_and_collect(limit=1) == [1]

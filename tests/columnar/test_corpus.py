"""Functions of the standard library as functions of ``map``: inlined, read, and in whole jobs, they give what a call gives."""

import inspect
import random
from collections import Counter

import pytest

from funken import Configuration, StreamExecutionEnvironment
from funken.errors import JobExecutionError
from tests.columnar.corpus import MODULES, VALUES, check, functions, outcome, shown

SAMPLE = 12
JOBS = 25


def test_functions_of_the_standard_library():
    counts = Counter()
    modules = random.Random(0).sample(MODULES, SAMPLE)

    assert list(check(["string", "textwrap", "posixpath", "json", "colorsys", *modules], counts)) == []
    assert counts["functions"] > 150
    assert counts["inlined"] > 10
    assert counts["read"] > 30


def takes_one(function):
    """Whether a function can be called with one argument; another one is refused as the program is written."""
    try:
        inspect.signature(function).bind(0)
    except TypeError:
        return False
    return True


FOUND = [
    (name, each)
    for name, each in functions(["textwrap", "posixpath", "html", "urllib.parse", "fnmatch", "calendar"])
    if not inspect.isgeneratorfunction(each) and takes_one(each)
]


@pytest.mark.parametrize("name", [name for name, _ in random.Random(1).sample(FOUND, JOBS)])
def test_jobs(name):
    function = dict(FOUND)[name]
    for kind in ("int", "str"):
        for value in VALUES[kind][:4]:
            expected = outcome(lambda: function(value))  # noqa: B023 - called at once
            if expected != outcome(lambda: function(value)):  # noqa: B023 - it depends on more than its argument
                continue
            env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": False}))
            try:
                (made,) = env.from_collection([value]).map(function).execute_and_collect(limit=1)
            except JobExecutionError as error:
                assert expected.startswith("raises ")
                assert expected.split()[1] in str(error)
            else:
                assert shown(made) == expected

"""A few of the random programs of ``attacks.py``: the same results, or errors, in rows, inlined and on columns."""

import warnings

import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from tests.columnar.attacks import MAKERS, Program, Writer, attack, compiles

PROGRAMS = 120


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        yield


@pytest.mark.parametrize("first", range(0, PROGRAMS, 30))
def test_programs(first):
    assert [
        f"{number}\n{program.source}\n{found}" for number, program, found in attack("tests", range(first, first + 30))
    ] == []


def test_many_of_them_are_read():
    read = 0
    for number in range(60):
        program = Program("tests", number)
        if compiles(program):
            env = StreamExecutionEnvironment.create_local_environment(1)
            records = env.from_source(
                DataGeneratorSource(MAKERS[program.form], 7), WatermarkStrategy.no_watermarks(), "records"
            )
            (records.map if program.gives == "one" else records.flat_map)(program.function()).name("attacked").print()
            read += "columns: attacked: vectorized" in env.explain()
    assert read >= 10
    assert Writer.function is not None

"""One place pickles what belongs to users, and every caller names the operator and the record."""

import ast
import pickle
import threading
from pathlib import Path

import pytest

from funken import InvalidProgram
from funken.errors import StateError
from funken.io.shapes import dumps, dumps_by_value, first_unpicklable
from funken.plan.nodes import portable

SOURCE = Path(__file__).parents[2] / "src" / "funken"


class Refusing:
    def __reduce__(self):
        raise RuntimeError("not this one")


def failure(error, *details):
    return StateError(f"{details}: {error}")


def test_data_is_pickled_by_pickle_where_it_can_be():
    assert dumps(("a", 1), failure) == pickle.dumps(("a", 1), 5)


def test_instances_of_local_classes_travel():
    class Local:
        pass

    assert type(pickle.loads(dumps(Local(), failure))).__name__ == "Local"


@pytest.mark.parametrize("pickled", [dumps, dumps_by_value])
def test_the_error_is_the_callers_and_what_the_object_raised_its_cause(pickled):
    with pytest.raises(StateError, match=r"\('the state', 3\): not this one") as raised:
        pickled(Refusing(), failure, "the state", 3)

    assert isinstance(raised.value.__cause__, RuntimeError)


def test_code_keeps_the_name_of_its_file():
    def outer():
        return lambda: 1

    copy = pickle.loads(dumps_by_value(outer, failure))

    assert copy()() == 1
    assert copy.__code__ == outer.__code__
    assert {copy.__code__.co_filename, copy().__code__.co_filename} == {__file__}


def test_the_first_that_cannot_be_pickled_is_found():
    number, _, error = first_unpicklable([1, "two", threading.Lock(), Refusing()])

    assert (number, type(error)) == (2, TypeError)
    assert first_unpicklable([1, "two"]) is None


def test_an_error_of_a_part_of_the_program_is_raised_as_it_is():
    class Part:
        def __reduce__(self):
            raise InvalidProgram("operator 'map' is at fault")

    with pytest.raises(InvalidProgram, match="^operator 'map' is at fault$"):
        portable(Part())


def test_cloudpickle_pickles_in_one_module_only():
    found = set()
    sources = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    for path in [path for path, text in sources.items() if "cloudpickle" in text]:  # to parse all takes seconds
        for node in ast.walk(ast.parse(sources[path])):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in ("cloudpickle.dumps", "cloudpickle.Pickler"):
                found.add(path.relative_to(SOURCE).as_posix())

    assert found == {"io/shapes.py"}


def test_a_broadcast_variable_of_spark_travels_as_its_value(tmp_path):
    broadcast = pytest.importorskip("pyspark").Broadcast
    (tmp_path / "value").write_bytes(pickle.dumps({"a": 1}))
    variable = broadcast(path=str(tmp_path / "value"))

    data = dumps_by_value(lambda key: variable.value[key], lambda error: error)
    (tmp_path / "value").unlink()

    assert pickle.loads(data)("a") == 1


def test_an_accumulator_of_spark_says_what_counts_instead():
    accumulators = pytest.importorskip("pyspark.accumulators")
    accumulator = accumulators.Accumulator(900_001, 0, accumulators.INT_ACCUMULATOR_PARAM)

    with pytest.raises(ValueError, match=r"counts in Spark's own jobs only. Count with a metric.*get_metrics_group"):
        dumps_by_value(accumulator.add, lambda error: ValueError(str(error)))

"""What PySpark is kept from importing in every program that runs on Spark."""

import json
import os
import subprocess
import sys

import pytest

CONVERTED = """
import json, sys
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter
from funken.spark.jvm import spare_imports
spare_imports()
scalar, array = NumpyScalarConverter(), NumpyArrayConverter()
found = [[each.can_convert(value) for value in ([1], {}, "a")] for each in (scalar, array)]
found.append(sorted({"pyspark.testing.utils", "pandas", "numpy"} & set(sys.modules)))
import numpy
values = (numpy.int64(7), numpy.zeros(3), numpy.zeros((2, 2)), [1])
found += [[each.can_convert(value) for value in values] for each in (scalar, array)]
print(json.dumps([*found, scalar.convert(numpy.int64(7), None)]))
"""


def test_pyspark_imports_no_pandas_to_recognize_a_list():
    done = subprocess.run([sys.executable, "-c", CONVERTED], capture_output=True, text=True, check=True)

    none = [False, False, False]
    assert json.loads(done.stdout) == [none, none, [], [True, False, False, False], [False, True, False, False], 7]


JOB = """
import sys
from funken import Configuration, StreamExecutionEnvironment
from funken.dataset import ExecutionEnvironment
batch = Configuration({"execution.target": "batch", "parallelism.default": 1})
env = StreamExecutionEnvironment.get_execution_environment(batch)
found = sorted(env.from_collection([1, 2]).key_by(lambda n: n).map(lambda n: n + 1).execute_and_collect())
counted = ExecutionEnvironment.get_execution_environment(batch).from_elements(1, 2).count()
print(found, counted, sorted({"pandas", "pyspark.testing.utils"} & set(sys.modules)))
"""


@pytest.mark.spark
def test_a_program_on_spark_does_without_pandas(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    env = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "job.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=200, check=False
    )

    assert done.stdout == "[2, 3] 2 []\n", done.stderr

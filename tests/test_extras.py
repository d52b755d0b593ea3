"""Without NumPy, PyArrow and PySpark: programs run record by record in this process, and what needs them says so."""

import json
import subprocess
import sys
import textwrap

import pytest

from funken import extras
from funken.errors import EnvironmentNotReady

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numpy", "pandas", "pyarrow", "pyspark", "py4j", "scipy", "sklearn", "river"}:
            top = name.partition(".")[0]
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)

sys.meta_path.insert(0, Absent())
from funken import *
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
"""


def without(program, folder):
    """Run a program in a process that has none of these packages."""
    code = WITHOUT + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    said = [line for line in done.stderr.splitlines(True) if not line.startswith("PySpark is not installed")]
    return done.stdout, "".join(said)


PROGRAMS = {
    "windows of text": """
        by_length = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda line, _: len(line) * 1000)
        words = env.read_text_file("words.txt").assign_timestamps_and_watermarks(by_length).flat_map(str.split)
        counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(60_000))
        print(sorted(counts.sum(1).execute_and_collect()))
        """,
    "JSON to JSON": """
        from dataclasses import dataclass

        @dataclass
        class Sale:
            item: str
            price: int

        dear = env.read_json("sales.jsonl", Sale).filter(lambda sale: sale.price > 2).map(lambda sale: sale.item)
        print(sorted(dear.execute_and_collect()))
        """,
    "rows": """
        rows = env.from_collection([{"k": 1, "v": 2}, {"k": 1, "v": 3}]).key_by(lambda row: row["k"])
        print(sorted(rows.map(lambda row: row["v"]).execute_and_collect()))
        """,
    "a data set": """
        from funken.dataset import ExecutionEnvironment
        print(sorted(ExecutionEnvironment.get_execution_environment().from_elements(3, 4).map(lambda n: n * 2).collect()))
        """,
}
PRINTED = {
    "windows of text": "[('be', 2), ('not', 1), ('or', 1), ('to', 2)]\n",
    "JSON to JSON": "['jam']\n",
    "rows": "[2, 3]\n",
    "a data set": "[6, 8]\n",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "words.txt").write_text("to be or\nnot to be\n")
    sales = [{"item": "tea", "price": 2}, {"item": "jam", "price": 5}]
    (tmp_path / "sales.jsonl").write_text("\n".join(map(json.dumps, sales)))
    return tmp_path


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_here_record_by_record(folder, name):
    assert without(PROGRAMS[name], folder) == (PRINTED[name], "")


def test_the_plan_says_that_it_has_no_columns(folder):
    printed, _ = without("print(env.read_text_file('words.txt').map(len).print() and env.explain())", folder)

    assert "off: needs numpy and pyarrow (pip install 'funken[columns]')" in printed


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("env.from_collection([1]).to_arrow()", "pip install 'funken[columns]'"),
        ("env.from_collection([1]).to_pandas()", "pip install pandas"),
        ("env.from_collection([1]).map_batches(list)", "a function of batches needs numpy and pyarrow"),
        (
            "env.from_collection([1]).to_spark()",
            "to_spark() needs pyspark, pandas and pyarrow: pip install 'funken[spark]'",
        ),
        ("env.read_parquet('words.parquet')", "ParquetFormat needs numpy and pyarrow: pip install 'funken[columns]'"),
        ("env.read_csv('words.txt')", "pip install 'funken[columns]'"),
        (
            "env.configure({'execution.target': 'continuous'}).from_collection([1]).print(); env.execute()",
            "execution.target 'continuous' needs pyspark, pandas and pyarrow: pip install 'funken[spark]'",
        ),
        ("import funken.ml", "funken.ml needs sklearn, river, numpy and scipy: pip install 'funken[ml]'"),
        (
            "from funken.table import TableEnvironment; TableEnvironment.create()",
            "funken.table needs numpy and pyarrow: pip install 'funken[sql]'",
        ),
    ],
)
def test_what_needs_a_package_names_the_extra(folder, program, said):
    assert said in without(program, folder)[1].splitlines()[-1]


def test_only_packages_of_funken_are_explained():
    mine, users = ModuleNotFoundError("no", name="pyspark.sql"), ModuleNotFoundError("no", name="shop")

    assert str(extras.explained(mine)) == "no: pip install 'funken[spark]'."
    assert extras.explained(users) is users
    assert extras.explained(extras.explained(mine)).args == extras.explained(mine).args


def test_one_absent_package_is_named_alone(monkeypatch):
    monkeypatch.setitem(extras.EXTRAS, "columns", ("json", "no_such_package_of_arrays"))

    with pytest.raises(
        EnvironmentNotReady, match=r"^it needs no_such_package_of_arrays: pip install 'funken\[columns\]'\.$"
    ):
        extras.need("columns", "it")


def test_a_file_beside_the_program_is_not_taken_for_a_package(tmp_path):
    (tmp_path / "pulsar.py").write_text("")
    script = tmp_path / "job.py"
    script.write_text("from funken import extras\nextras.required('pulsar', 'pulsar', 'Pulsar needs pulsar-client')\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=False)

    file = tmp_path / "pulsar.py"
    assert f"Pulsar needs pulsar-client, but 'pulsar' is {file} here, a file beside the program; give it" in done.stderr

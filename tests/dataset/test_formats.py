"""Files in and out."""

import dataclasses
import gzip
import json
import os

import pytest

from funken import InvalidProgram
from funken.dataset import InputFormat, OutputFormat, WriteMode
from funken.errors import OperatorFailed, SinkNotWritable, SourceNotReadable
from tests.dataset.programs import PARALLELISM, environment, same


@dataclasses.dataclass
class User:
    name: str
    age: int


@pytest.mark.parametrize("parallelism", PARALLELISM)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_lines_are_read_once_wherever_the_splits_are_cut(tmp_path, parallelism, ending):
    lines = [f"line {'x' * (n % 91)} {n}" for n in range(900)]
    path = tmp_path / "text"
    path.write_bytes(ending.join(lines).encode())

    assert environment(parallelism).read_text_file(path).collect() == lines


def test_a_line_that_ends_where_a_split_ends(tmp_path):
    path = tmp_path / "text"
    path.write_text("0123456\n" * 2048)  # 16 KiB: every split begins with a line

    assert environment(4).read_text_file(path).count() == 2048


def test_folders_patterns_and_compressed_files(tmp_path):
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "b.txt").write_text("b\n")
    (tmp_path / ".hidden").write_text("no\n")
    with gzip.open(tmp_path / "c.txt.gz", "wt") as file:
        file.write("c\n")
    env = environment(2)

    assert sorted(env.read_text_file(tmp_path).collect()) == ["a", "b", "c"]
    assert sorted(env.read_text_file(f"{tmp_path}/[ab].txt").collect()) == ["a", "b"]
    with pytest.raises(SourceNotReadable, match="there is no such file"):
        env.read_text_file(tmp_path / "missing").collect()


@pytest.mark.parametrize("parallelism", PARALLELISM)
def test_csv_there_and_back(tmp_path, parallelism):
    rows = [(n, f'name "{n}", the {n}th', n / 4) for n in range(50)]
    env = environment(parallelism)
    env.from_collection(rows).write_as_csv(tmp_path / "csv")
    env.execute()

    assert os.path.isdir(tmp_path / "csv") == (parallelism > 1)
    assert env.read_csv_file(tmp_path / "csv", [int, str, float]).collect() == rows
    (tmp_path / "header").write_text("name,age\nann,5\n\nbob,6\n")
    read = env.read_csv_file(tmp_path / "header", [str, int], skip_header=True, target=User)
    assert read.collect() == [User("ann", 5), User("bob", 6)]
    assert read.group_by("age").max_by("name").count() == 2
    with pytest.raises(SourceNotReadable, match="line 1 of .* does not fit str, int: 'name,age'"):
        env.read_csv_file(tmp_path / "header", [str, int]).collect()


@pytest.mark.parametrize("parallelism", PARALLELISM)
def test_json_and_parquet_there_and_back(tmp_path, parallelism):
    users = [User("ann", 5), User("bob", 6), User("cy", 7)]
    env = environment(parallelism)
    env.from_collection(users).write_as_json(tmp_path / "json")
    env.from_collection(users).write_as_parquet(tmp_path / "parquet")
    env.from_collection([("a", 1)]).write_as_parquet(tmp_path / "tuples")
    env.from_collection([]).write_as_parquet(tmp_path / "nothing")
    env.execute()

    assert same(env.read_json_file(tmp_path / "json").collect(), [dataclasses.asdict(user) for user in users])
    assert same(env.read_parquet_file(tmp_path / "parquet", target=User).collect(), users)
    assert same(env.read_parquet_file(tmp_path / "parquet", ["age"]).collect(), [(5,), (6,), (7,)])
    assert env.read_parquet_file(tmp_path / "tuples").collect() == [{"f0": "a", "f1": 1}]


def test_a_path_that_exists_is_only_written_if_allowed(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    env = environment(1)
    env.from_elements(1).write_as_text(path)
    with pytest.raises(SinkNotWritable, match="exists already"):
        env.execute()
    assert path.read_text() == "old"

    env.from_elements(1).write_as_text(path, WriteMode.OVERWRITE)
    env.execute()
    assert path.read_text() == "1\n"

    env.from_elements(1, 2).write_as_formatted_text(path, lambda n: f"<{n}>", WriteMode.OVERWRITE).set_parallelism(2)
    env.execute()
    assert sorted(os.listdir(path)) == ["1", "2"]
    assert os.listdir(tmp_path) == ["out"]


def test_a_failed_program_leaves_no_files(tmp_path):
    env = environment(2)
    env.from_elements(1, 0).map(lambda n: 1 // n).write_as_text(tmp_path / "out")

    with pytest.raises(OperatorFailed):
        env.execute()

    assert os.listdir(tmp_path) == []


def test_what_each_task_writes_can_be_sorted(tmp_path):
    env = environment(1)
    sink = env.from_elements((1, "b"), (2, "a"), (1, "a")).write_as_json(tmp_path / "out")
    sink.name("ordered").sort_local_output(0, descending=True).sort_local_output(1)
    env.execute()

    lines = (tmp_path / "out").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [[2, "a"], [1, "a"], [1, "b"]]


class Numbers(InputFormat):
    def create_splits(self, parallelism):
        return [0, 10, 20]

    def read(self, split):
        if split == 20:
            raise ValueError("no such split")
        return range(split, split + 3)


class Totals(OutputFormat):
    travels = True
    totals: list = []  # noqa: RUF012 - shared on purpose

    def open(self, task, parallelism):
        self.total = 0

    def write(self, block):
        self.total += sum(block)

    def close(self):
        self.totals.append(self.total)


def test_formats_of_ones_own():
    Totals.totals.clear()
    env = environment(2)
    env.from_elements(1, 2, 3).output(Totals())
    env.execute()

    assert sorted(Totals.totals) == [1, 5]
    with pytest.raises(OperatorFailed, match="failed at the split 20: ValueError: no such split"):
        env.create_input(Numbers()).collect()


def test_a_parquet_file_without_the_chosen_columns_is_refused_by_field(tmp_path):
    env = environment(1)
    env.from_collection([User("ann", 5)]).write_as_parquet(tmp_path / "parquet")
    env.execute()

    with pytest.raises(InvalidProgram, match="there is no field 'age'"):
        env.read_parquet_file(tmp_path / "parquet", ["age"]).group_by("age")

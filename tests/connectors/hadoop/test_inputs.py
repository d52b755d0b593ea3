"""What Hadoop's input formats read, through Spark, in both environments."""

import pytest

from funken import Configuration, StreamExecutionEnvironment
from funken.connectors.hadoop import HadoopInputs
from funken.dataset import ExecutionEnvironment
from funken.errors import InvalidProgram, SourceNotReadable

pytestmark = pytest.mark.timeout(300)
MAPREDUCE = "org.apache.hadoop.mapreduce.lib.input."


@pytest.fixture
def spark():
    from funken.spark.session import existing, session_for

    return existing() or session_for(Configuration(), None, 0)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("input_format", "key_class", "expected"),
    [
        (f"{MAPREDUCE}KeyValueTextInputFormat", "org.apache.hadoop.io.Text", [("be", "2"), ("to", "1")]),
        ("org.apache.hadoop.mapred.KeyValueTextInputFormat", "org.apache.hadoop.io.Text", [("be", "2"), ("to", "1")]),
        (f"{MAPREDUCE}TextInputFormat", "org.apache.hadoop.io.LongWritable", [(0, "to\t1"), (5, "be\t2")]),
    ],
)
def test_files_are_read_by_both_apis_of_hadoop(spark, tmp_path, input_format, key_class, expected):
    (tmp_path / "words").write_text("to\t1\nbe\t2\n")
    frame = HadoopInputs.read_hadoop_file(spark, input_format, str(tmp_path / "words"), key_class)

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    with env.from_spark(frame).map(lambda row: (row.key, row.value)).execute_and_collect() as found:
        assert sorted(found) == sorted(expected)

    rows = ExecutionEnvironment.create_local_environment(parallelism=1).from_spark(frame)
    assert sorted((row.key, row.value) for row in rows.collect()) == sorted(expected)


@pytest.mark.spark
def test_sequence_files_hold_bytes_and_numbers(spark, tmp_path):
    pairs = spark.sparkContext.parallelize([(7, bytearray(b"\x00\xff")), (8, bytearray(b""))], 1)
    pairs.saveAsNewAPIHadoopFile(
        str(tmp_path / "sequence"), "org.apache.hadoop.mapreduce.lib.output.SequenceFileOutputFormat",
        "org.apache.hadoop.io.IntWritable", "org.apache.hadoop.io.BytesWritable",
    )  # fmt: skip
    frame = HadoopInputs.read_hadoop_file(
        spark, f"{MAPREDUCE}SequenceFileInputFormat", str(tmp_path / "sequence"),
        "org.apache.hadoop.io.IntWritable", "org.apache.hadoop.io.BytesWritable",
    )  # fmt: skip

    assert frame.dtypes == [("key", "int"), ("value", "binary")]
    assert sorted((row.key, bytes(row.value)) for row in frame.collect()) == [(7, b"\x00\xff"), (8, b"")]


@pytest.mark.spark
def test_a_format_may_be_set_up_by_its_configuration_alone(spark, tmp_path):
    (tmp_path / "lines").write_text("".join(f"{n}\n" for n in range(8)))
    conf = {
        "mapreduce.input.fileinputformat.inputdir": str(tmp_path / "lines"),
        "mapreduce.input.lineinputformat.linespermap": "2",
    }
    frame = HadoopInputs.create_hadoop_input(spark, f"{MAPREDUCE}NLineInputFormat", conf=conf)

    assert frame.rdd.getNumPartitions() == 4
    assert [row.value for row in frame.collect()] == list("01234567")


@pytest.mark.spark
def test_what_is_not_there_is_named(spark, tmp_path):
    with pytest.raises(SourceNotReadable, match=r"no\.such\.Format cannot read .*spark\.jars"):
        HadoopInputs.read_hadoop_file(spark, "no.such.Format", str(tmp_path))
    with pytest.raises(SourceNotReadable, match="missing"):
        HadoopInputs.read_hadoop_file(spark, f"{MAPREDUCE}TextInputFormat", str(tmp_path / "missing"))


def test_columns_of_other_classes_have_to_be_named():
    with pytest.raises(InvalidProgram, match="the columns of 'my.Point' are not known"):
        HadoopInputs.read_hadoop_file(None, f"{MAPREDUCE}TextInputFormat", "in", "my.Point")

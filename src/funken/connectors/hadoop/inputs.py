"""What a Hadoop ``InputFormat`` reads, as a Spark DataFrame with the columns ``key`` and ``value``.

Spark runs the format in its executors and turns keys and values into Python's; ``from_spark()`` of either environment reads the
DataFrame. Of Hadoop's own Writables the column types are known, of others they have to be named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from funken.errors import InvalidProgram, SourceNotReadable

_OLD, _NEW = "org.apache.hadoop.mapred.", "org.apache.hadoop.mapreduce."
_COLUMNS = {
    f"org.apache.hadoop.io.{name}": column
    for name, column in {
        "Text": "string",
        "IntWritable": "int",
        "VIntWritable": "int",
        "LongWritable": "long",
        "VLongWritable": "long",
        "FloatWritable": "float",
        "DoubleWritable": "double",
        "BooleanWritable": "boolean",
        "BytesWritable": "binary",
        "NullWritable": "string",
    }.items()
}
_TEXT = "org.apache.hadoop.io.Text"
_LONG = "org.apache.hadoop.io.LongWritable"


class HadoopInputs:
    """Input formats of Hadoop as DataFrames (Flink's ``HadoopInputs``).

    ``spark`` is the program's session; keys and values are named by their Java classes. With a jar of one's own in
    ``spark.jars``, formats that Hadoop does not have are read too.
    """

    @staticmethod
    def read_hadoop_file(
        spark: Any, input_format: str, path: str, key_class: str = _LONG, value_class: str = _TEXT, *, schema: str = "",
        conf: Mapping[str, str] | None = None, key_converter: str | None = None, value_converter: str | None = None,
    ) -> Any:  # fmt: skip
        """Return the records of files as a DataFrame; ``path`` may have several, with commas between, and patterns.

        ``schema`` names the columns for classes that are not Hadoop's own: ``"key long, value struct<name: string>"``. A
        converter is a Java class that turns what Spark does not know into what it does.

        Raises ``InvalidProgram`` if the schema is missing, ``SourceNotReadable`` if the classes or the files are not there.

        >>> HadoopInputs.read_hadoop_file(None, "org.apache.hadoop.mapred.TextInputFormat", "in", value_class="my.Point")
        Traceback (most recent call last):
        funken.errors.InvalidProgram: the columns of 'my.Point' are not known. Name both: schema="key ..., value ...".
        """
        columns = schema or _schema(key_class, value_class)
        context = spark.sparkContext
        read = context.newAPIHadoopFile if _is_new(input_format) else context.hadoopFile
        return _frame(
            spark, input_format, path, columns,
            lambda: read(path, input_format, key_class, value_class, key_converter, value_converter, dict(conf or {})),
        )  # fmt: skip

    @staticmethod
    def create_hadoop_input(
        spark: Any, input_format: str, key_class: str = _LONG, value_class: str = _TEXT, *, conf: Mapping[str, str],
        schema: str = "", key_converter: str | None = None, value_converter: str | None = None,
    ) -> Any:  # fmt: skip
        """Return what a format reads that is set up by ``conf`` alone, such as one that reads a database.

        Raises ``InvalidProgram`` if the schema is missing, ``SourceNotReadable`` if the classes are not there.

        >>> formats = "org.apache.hadoop.mapreduce.lib.db.DBInputFormat"
        >>> HadoopInputs.create_hadoop_input(None, formats, value_class="my.Order", conf={})
        Traceback (most recent call last):
        funken.errors.InvalidProgram: the columns of 'my.Order' are not known. Name both: schema="key ..., value ...".
        """
        columns = schema or _schema(key_class, value_class)
        context = spark.sparkContext
        read = context.newAPIHadoopRDD if _is_new(input_format) else context.hadoopRDD
        return _frame(
            spark, input_format, "its configuration", columns,
            lambda: read(input_format, key_class, value_class, key_converter, value_converter, dict(conf)),
        )  # fmt: skip


def _schema(key_class: str, value_class: str) -> str:
    unknown = [name for name in (key_class, value_class) if name not in _COLUMNS]
    if unknown:
        raise InvalidProgram(f'the columns of {unknown[0]!r} are not known. Name both: schema="key ..., value ...".')
    return f"key {_COLUMNS[key_class]}, value {_COLUMNS[value_class]}"


def _is_new(input_format: str) -> bool:
    """Whether a format is of Hadoop's newer API; those of others are taken for such.

    >>> _is_new("org.apache.hadoop.mapred.TextInputFormat"), _is_new("org.apache.hadoop.mapreduce.lib.input.TextInputFormat")
    (False, True)
    """
    return not input_format.startswith(_OLD)


def _frame(spark: Any, input_format: str, where: str, columns: str, read: Any) -> Any:
    try:
        return spark.createDataFrame(read(), columns, verifySchema=False)
    except Exception as error:
        text = str(getattr(error, "java_exception", None) or error).splitlines()[0]
        raise SourceNotReadable(
            f"the Hadoop format {input_format} cannot read {where}: {text}. See that its class is on Spark's class path "
            "(spark.jars) and that the files are there."
        ) from error

"""Mistakes in calls of frames: the type of the error and PyFlink's words, of every method."""

import datetime
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple, TypedDict

import pandas as pd
import pyarrow as pa
import pytest

import funken.dataframe as ff
from funken.errors import FunkenError
from funken.table import AggregateFunction, AsyncScalarFunction, ScalarFunction, TableEnvironment, TableFunction
from funken.table.expressions import lit

INT, STRING = ff.DataType.int64(), ff.DataType.string()
SCHEMA = {"id": INT, "name": STRING}


class Person(NamedTuple):
    name: str


class Scalar(ScalarFunction):
    def eval(self, value: int) -> int:
        return value


class Random(ScalarFunction):
    def eval(self, value: int) -> int:
        return value

    def is_deterministic(self):
        return False


class Rows(TableFunction):
    def eval(self, record) -> Iterator[int]:
        yield record["id"]


class Sum(AggregateFunction):
    def create_accumulator(self):
        return [0]

    def accumulate(self, accumulator, value):
        accumulator[0] += value

    def get_value(self, accumulator) -> int:
        return accumulator[0]


class BadType(Sum):
    def get_result_type(self):
        return int


class AsyncSum(Sum):
    async def accumulate(self, accumulator, value):
        accumulator[0] += value


class NotAsync(AsyncScalarFunction):
    def eval(self, value: int) -> int:
        return value


class NeedsArgument:
    def __init__(self, value):
        self.value = value

    def __call__(self, value: int) -> int:
        return value


class NoCall:
    pass


class Hidden(NeedsArgument):
    __call__ = None


class Names(TypedDict):
    id: int


async def later(value: int) -> int:
    return value


@functools.wraps(later)
def around(value):
    return later(value)


def two(value) -> Iterator[tuple[int, str]]:
    yield value["id"], "a"


def unclear(value: int) -> "NotThere":  # noqa: F821
    return value


def frame():
    return ff.from_records([(1, "ann", [1], {"k": 1})], schema=["id", "name", "tags", "m"])


def other():
    return ff.from_records([(1, 2)], schema=["id", "age"])


def col(name):
    return ff.col(name)


FRAMES = [
    (TypeError, "columns must be strings", lambda f: f.select(42)),
    (TypeError, "projections must be expressions", lambda f: f.select(answer=42)),
    (TypeError, "expr must be an Expression", lambda f: f.with_column("a", 42)),
    (TypeError, "expr must be an Expression", lambda f: f.with_column("a", lambda frame: 42)),
    (TypeError, "expr must be an Expression", lambda f: f.with_column("a", type(col("a")))),
    (TypeError, "name must be a string", lambda f: f.with_column(42, lit(1))),
    (TypeError, "exprs must be expressions", lambda f: f.with_columns(42)),
    (TypeError, "named_exprs must be expressions", lambda f: f.with_columns(a=42)),
    (ValueError, "Column 'no' not found in schema", lambda f: f.drop("no")),
    (TypeError, "columns must be strings or expressions", lambda f: f.drop(42)),
    (TypeError, "strict must be a boolean", lambda f: f.drop("id", strict="yes")),
    (TypeError, "mapping must be a dictionary or callable", lambda f: f.rename()),
    (ValueError, "must be old/new name pairs", lambda f: f.rename("id", "a", "name")),
    (TypeError, "column names must be strings", lambda f: f.rename("id", 42)),
    (TypeError, "mapping keys and values must be strings", lambda f: f.rename({"id": 42})),
    (TypeError, "callable must return a string", lambda f: f.rename(lambda name: 42)),
    (ValueError, "either positional arguments or mapping", lambda f: f.rename({"id": "a"}, mapping={"id": "b"})),
    (TypeError, "predicate must be an Expression", lambda f: f.filter(True)),
    (TypeError, "predicate must be an Expression", lambda f: f.filter(type(col("a")))),
    (TypeError, "callable predicates must return an Expression", lambda f: f.filter(lambda frame: True)),
    (ValueError, "requires at least one predicate", lambda f: f.filter()),
    (TypeError, "key must be a string, list", lambda f: f[42]),
    (AttributeError, "no column and no method 'ts'", lambda f: f.ts),
    (TypeError, "data_type must be a pyflink.dataframe.DataType", lambda f: ff.lit(1, "INT")),
    *(
        (ValueError, "does not support a value literal", lambda f, v=value, t=type_: ff.lit(v, t))
        for value, type_ in (
            (3.14, INT), ("abc", INT), (True, INT), (42, STRING), ([1.25], ff.DataType.list(ff.DataType.int16())),
            ({"a": 1}, ff.DataType.map(INT, INT)), ((1,), ff.DataType.struct({"a": INT, "b": INT})),
            (datetime.datetime(2026, 1, 1), ff.DataType.date()), ("2026-01-01", ff.DataType.date()),  # noqa: DTZ001
        )
    ),
    (ValueError, 'keep must be "first" or "last"', lambda f: f.distinct("id", keep="best")),
    (ValueError, "nulls_first requires order_by", lambda f: f.distinct("id", nulls_first=True)),
    (ValueError, "order_by requires subset", lambda f: f.distinct(order_by="id")),
    (ValueError, "subset column 'no' does not exist, available columns", lambda f: f.distinct("no")),
    (ValueError, "subset must not be empty", lambda f: f.distinct([])),
    (TypeError, "subset must be a string or a list of strings", lambda f: f.distinct(42)),
    (ValueError, "n must be an integer >= 1", lambda f: f.top_n(0, order_by="id")),
    (TypeError, "top_n requires a non-empty order_by", lambda f: f.top_n(1)),
    (ValueError, "order_by column 'no' does not exist", lambda f: f.top_n(1, order_by="no")),
    (ValueError, "partition_by column 'no' does not exist", lambda f: f.top_n(1, order_by="id", partition_by="no")),
    (TypeError, "order_by must be a string, an expression", lambda f: f.top_n(1, order_by=42)),
    (ValueError, "by must not be empty", lambda f: f.sort([])),
    (TypeError, "by must be a string, an expression", lambda f: f.sort(None)),
    (ValueError, "by column 'no' does not exist, available columns", lambda f: f.sort("no")),
    (ValueError, "must not specify asc or desc; use descending", lambda f: f.sort(col("id").desc)),
    (ValueError, "must not specify asc or desc; use descending", lambda f: f.sort(["name", col("id").asc])),
    (TypeError, "descending must be a boolean or a list of booleans", lambda f: f.sort("id", descending=1)),
    (TypeError, "descending must be a boolean or a list of booleans", lambda f: f.sort("id", descending=None)),
    (ValueError, "descending must have the same length", lambda f: f.sort("id", descending=[True, False])),
    (ValueError, "nulls_first must have the same length", lambda f: f.sort("id", nulls_first=[True, False])),
    (TypeError, "nulls_first must be a boolean", lambda f: f.sort("id", nulls_first="yes")),
    *(
        (error, says, lambda f, m=method, v=value: getattr(f, m)(v))
        for method in ("limit", "offset", "head", "take")
        for error, says, value in (
            (ValueError, "n must be non-negative", -1), (TypeError, "n must be an integer", True),
            (TypeError, "n must be an integer", 1.5), (ValueError, "n must be less than or equal", 2**31),
        )
    ),
    *(
        (error, says, lambda f, m=method, v=subset: getattr(f, m)(*([0] if "fill" in m else []), subset=v))
        for method in ("drop_null", "drop_nan", "fill_null", "fill_nan")
        for error, says, subset in (
            (TypeError, "subset must be a list of strings", "id"), (ValueError, "subset cannot be empty", []),
            (ValueError, "Columns not found in DataFrame: \\['no'\\]", ["no"]),
        )
    ),
    (TypeError, "column must be a column name or expression", lambda f: f.explode(42)),
    (TypeError, "ignore_empty_and_null must be a boolean", lambda f: f.explode("tags", ignore_empty_and_null=1)),
    (TypeError, "output_column must be a string or list of strings", lambda f: f.explode("tags", output_column=1)),
    (TypeError, "output_column must contain only strings", lambda f: f.explode("tags", output_column=[1])),
    (TypeError, "must have an ARRAY, MAP, or MULTISET type", lambda f: f.explode("id")),
    (ValueError, "output_column is required for multiple output fields", lambda f: f.explode("m")),
    (ValueError, "output_column must contain 2 name", lambda f: f.explode("m", output_column="k")),
    (ValueError, "must be non-empty and unique", lambda f: f.explode("m", output_column=["k", "k"])),
    (ValueError, "conflict with retained input columns", lambda f: f.explode("tags", output_column="id")),
    (ValueError, "not an aggregation", lambda f: f.explode(col("id").collect)),
    (TypeError, "grouping keys must be strings or expressions", lambda f: f.group_by(42)),
    (ValueError, "requires at least one grouping key", lambda f: f.group_by()),
    (ValueError, "requires at least one aggregation", lambda f: f.agg()),
    (ValueError, "requires at least one aggregation", lambda f: f.group_by("id").agg()),
    (TypeError, "aggregations must be expressions", lambda f: f.agg(42)),
    (TypeError, "aggregations must be expressions", lambda f: f.group_by("id").agg(n=42)),
    (ValueError, "has no aggregate", lambda f: f.agg(col("id"))),
    (FunkenError, "id", lambda f: f.group_by("name").agg(col("id"))),
    (TypeError, "other must be a pyflink.dataframe.DataFrame", lambda f: f.join(1, on="id")),
    (TypeError, "how must be a string", lambda f: f.join(other(), on="id", how=1)),
    (ValueError, 'how must be one of "inner", "left"', lambda f: f.join(other(), on="id", how="near")),
    (ValueError, "cross join does not accept on", lambda f: f.join(other(), on="id", how="cross")),
    (ValueError, "duplicate non-key columns", lambda f: f.join(other(), how="cross")),
    (ValueError, "requires on or both left_on and right_on", lambda f: f.join(other())),
    (ValueError, "must be provided together", lambda f: f.join(other(), left_on="id")),
    (ValueError, "on cannot be combined with left_on", lambda f: f.join(other(), on="id", left_on="id")),
    (ValueError, "must have the same number of keys", lambda f: f.join(other(), left_on=["id", "name"], right_on="id")),
    (ValueError, "on must not be empty", lambda f: f.join(other(), on=[])),
    (ValueError, "on must not contain duplicate column names", lambda f: f.join(other(), on=["id", "id"])),
    (TypeError, "on must be a string, an expression", lambda f: f.join(other(), on=1)),
    (ValueError, "on column 'no' does not exist, available columns", lambda f: f.join(other(), on="no")),
    (TypeError, "other must be a DataFrame", lambda f: f.union_all(f.to_table())),
    (TypeError, "on must be a column name or expression", lambda f: f.tumble(on=1, size=lit(1).second)),
    (TypeError, "interval must be a datetime.timedelta", lambda f: f.tumble(on="id", size=5)),
    (TypeError, "table_function_call must be", lambda f: f.join_lateral(1)),
    (ValueError, "require output names", lambda f: f.join_lateral(ff.udtf(lambda v: [v], return_dtype=int)(col("id")))),
    (ValueError, "conflict with input columns", lambda f: f.join_lateral(
        ff.udtf(lambda v: [v], return_dtype=int)(col("id")).alias("id"))),
    (ValueError, "require alias", lambda f: f.join_lateral(col("id"))),
    (ValueError, "conflicts", lambda f: f.iter_rows(include_row_kind=True, row_kind_field="id")),
    (ValueError, "row_kind_field must not be empty", lambda f: f.iter_rows(include_row_kind=True, row_kind_field="")),
    (TypeError, "row_kind_field must be a string", lambda f: f.take(1, include_row_kind=True, row_kind_field=1)),
    (ValueError, "batch_size must be at least 1", lambda f: f.iter_batches(batch_size=0)),
    (TypeError, "batch_size must be an integer", lambda f: f.iter_batches(batch_size=True)),
    (ValueError, "batch_format must be one of", lambda f: f.take_batch(1, batch_format="polars")),
    (ValueError, "timeout must be at least 0", lambda f: f.take(1, timeout=-1)),
    (ValueError, "timeout must be finite", lambda f: f.take(1, timeout=float("inf"))),
    (TypeError, "timeout must be a number", lambda f: f.take_batch(1, timeout=True)),
    (TypeError, "positional", lambda f: f.take(1, 2.0)),
]  # fmt: skip

CREATION = [
    (TypeError, "data must be a sequence of records", lambda: ff.from_records("ab", schema=["a"])),
    (ValueError, "data must not be empty", lambda: ff.from_records([], schema=["a"])),
    (ValueError, "schema must not be empty", lambda: ff.from_records([(1,)], schema=[])),
    *(
        (TypeError, "schema must be a list of strings", lambda s=schema: ff.from_records([(1,)], schema=s))
        for schema in (0, "", ("a",), [1])
    ),
    (ValueError, "schema field names must not be empty", lambda: ff.from_dict({"a": [1]}, schema=[""])),
    (ValueError, "schema field names must be unique", lambda: ff.from_dict({"a": [1]}, schema=["a", "a"])),
    (ValueError, "schema is required for sequence records", lambda: ff.from_records([(1,)])),
    (TypeError, "invalid record at index 0", lambda: ff.from_records([1], schema=["a"])),
    (TypeError, "invalid record at index 1", lambda: ff.from_records([(1, 2), "ab"], schema=["a", "b"])),
    (ValueError, "index 1: record has 1 values but schema has 2 fields", lambda: ff.from_records(
        [(1, 2), (3,)], schema=["a", "b"])),
    (ValueError, "index 1: record has fields not present in schema: \\['b'\\]", lambda: ff.from_records(
        [{"a": 1}, {"a": 1, "b": 2}])),
    (ValueError, "index 1: record is missing schema field 'b'", lambda: ff.from_records([{"a": 1, "b": 2}, {"a": 1}])),
    (TypeError, "record must be a mapping", lambda: ff.from_records([{"a": 1}, (1,)])),
    (TypeError, "record must be a named tuple", lambda: ff.from_records([Person("a"), {"name": "b"}])),
    (TypeError, "data must be a mapping", lambda: ff.from_dict([("a", [1])])),
    (TypeError, "column 'a' values must be a sequence", lambda: ff.from_dict({"a": "text"})),
    (ValueError, "data must not be empty", lambda: ff.from_dict({})),
    (ValueError, "at least one row", lambda: ff.from_dict({"a": []})),
    (ValueError, "equal lengths", lambda: ff.from_dict({"a": [1], "b": []})),
    (ValueError, "column 'b' is not present in data", lambda: ff.from_dict({"a": [1]}, schema=["b"])),
    (TypeError, "data must be a pandas.DataFrame, but was list", lambda: ff.from_pandas([])),
    (TypeError, "data must be a pyarrow.Table, but was list", lambda: ff.from_arrow([])),
    (ValueError, "schema has 2 fields but data has 1 columns", lambda: ff.from_arrow(pa.table({"a": [1]}), ["a", "b"])),
    (TypeError, "table must be a pyflink.table.Table", lambda: ff.from_table(1)),
    (ValueError, "step must not be zero", lambda: ff.range(1, 2, 0)),
    (TypeError, "end must be an integer", lambda: ff.range(1, "2")),
    (TypeError, "watermark must be a tuple", lambda: ff.from_dict({"a": [1]}, watermark=["a", "a"])),
    (TypeError, "must be non-empty strings", lambda: ff.from_dict({"a": [1]}, watermark=("a", ""))),
    (ValueError, "watermark column 'b' is not present in data", lambda: ff.from_dict({"a": [1]}, watermark=("b", "b"))),
    (ValueError, "watermark column 'a' must have a timestamp type", lambda: ff.from_dict(
        {"a": [1]}, watermark=("a", "a"))),
    (TypeError, "t_env must be a StreamTableEnvironment", lambda: ff.set_table_environment(1)),
    (TypeError, "key must be a string", lambda: ff.config.get(1)),
    (TypeError, "default must be a string or None", lambda: ff.config.get("a", 1)),
    (TypeError, "name must be a string", lambda: ff.create_catalog(None, {})),
    (ValueError, "name must not be empty", lambda: ff.create_catalog("", {})),
    (TypeError, "options must be a dict", lambda: ff.create_catalog("c", ["type"])),
    (TypeError, "option keys must be strings", lambda: ff.create_catalog("c", {1: "x"})),
    (ValueError, "option keys must not be empty", lambda: ff.create_catalog("c", {"": "x"})),
    (TypeError, "option 'flag' must have a string value", lambda: ff.create_catalog("c", {"flag": True})),
    (ValueError, "a catalog named 'default_catalog' already exists", lambda: ff.create_catalog("default_catalog", {})),
    (ValueError, "no catalog named 'no' exists", lambda: ff.use_catalog("no")),
    (ValueError, "no database named 'no' exists in catalog 'default_catalog'", lambda: ff.use_database("no")),
    (TypeError, "name must be a string", lambda: ff.get_catalog(None)),
    (ValueError, "cannot bind 'taken': a temporary table or view with this name already exists", lambda: ff.sql(
        "SELECT 1", auto_bind=False, taken=frame())),
    (ValueError, "cannot bind 'a b': it is not a valid SQL identifier", lambda: ff.sql(
        "SELECT 1", auto_bind=False, **{"a b": frame()})),
    (TypeError, "'x' must be a DataFrame or a UDF", lambda: ff.sql("SELECT 1", auto_bind=False, x=frame().to_table())),
]  # fmt: skip


def reads(**options):
    return ff.read_generic(**{"connector": "datagen", "schema": SCHEMA, "options": {}} | options)


def kafka(**options):
    return ff.read_kafka(**{"bootstrap_servers": "h:1", "schema": SCHEMA, "topic": "t"} | options)


def to_kafka(**options):
    return frame().write_kafka(**{"bootstrap_servers": "h:1", "topic": "t"} | options)


FILES = [
    (TypeError, "connector must be a string", lambda: reads(connector=None)),
    (ValueError, "connector must not be empty", lambda: reads(connector="")),
    (TypeError, "schema must be a dict", lambda: reads(schema=[])),
    (ValueError, "schema must not be empty", lambda: reads(schema={})),
    (TypeError, "schema column names must be strings", lambda: reads(schema={1: INT})),
    (ValueError, "schema column names must not be empty", lambda: reads(schema={"": INT})),
    (TypeError, "must use a DataType value", lambda: reads(schema={"id": "INT"})),
    (TypeError, "options must be a dict", lambda: reads(options=[])),
    (TypeError, "option keys must be strings", lambda: reads(options={1: "a"})),
    (ValueError, "option keys must not be empty", lambda: reads(options={"": "a"})),
    (TypeError, "must have a string value", lambda: reads(options={"rows": 1})),
    (ValueError, "connector argument", lambda: reads(options={"connector": "a"})),
    (TypeError, "computed_columns must be a dict", lambda: reads(computed_columns=[])),
    (ValueError, "conflicts with a physical column", lambda: reads(computed_columns={"id": "id + 1"})),
    (TypeError, "computed column names must be strings", lambda: reads(computed_columns={1: "id"})),
    (ValueError, "computed column names must not be empty", lambda: reads(computed_columns={"": "id"})),
    (TypeError, "must use a string expression", lambda: reads(computed_columns={"a": 1})),
    (ValueError, "expression must not be empty", lambda: reads(computed_columns={"a": ""})),
    (TypeError, "watermark must be a tuple", lambda: reads(watermark=("id",))),
    (TypeError, "watermark column and expression must be strings", lambda: reads(watermark=("id", 1))),
    (ValueError, "must not be empty", lambda: reads(watermark=("", "id"))),
    (TypeError, "path must be a string", lambda: ff.read_json(1, schema=SCHEMA)),
    (ValueError, "path must not be empty", lambda: ff.read_parquet("", schema=SCHEMA)),
    (ValueError, "'path' must not be specified in connector_options", lambda: ff.read_json(
        "/p", schema=SCHEMA, connector_options={"path": "/q"})),
    (ValueError, "must be specified in format_options", lambda: ff.read_json(
        "/p", schema=SCHEMA, connector_options={"json.a": "b"})),
    (ValueError, "duplicate format option", lambda: ff.read_json(
        "/p", schema=SCHEMA, format_options={"a": "b", "json.a": "b"})),
    (ValueError, "conflicting values for option", lambda: ff.read_json(
        "/p", schema=SCHEMA, ignore_parse_errors=True, format_options={"ignore-parse-errors": "false"})),
    (TypeError, "ignore_parse_errors must be a bool or None", lambda: ff.read_json(
        "/p", schema=SCHEMA, ignore_parse_errors=1)),
    (ValueError, "partition_by column names must not be empty", lambda: ff.read_json(
        "/p", schema=SCHEMA, partition_by=[""])),
    (ValueError, "partition_by column names must not be duplicated", lambda: frame().write_json(
        "/p", partition_by=["id", "id"])),
    (TypeError, "mode must be a string", lambda: frame().write_json("/p", mode=1)),
    (ValueError, "mode must be 'append' or 'overwrite'", lambda: frame().write_json("/p", mode="replace")),
    (TypeError, "sink_parallelism must be an int or None", lambda: frame().write_json("/p", sink_parallelism="2")),
    (TypeError, "auto_compaction must be a bool or None", lambda: frame().write_parquet("/p", auto_compaction=1)),
    (TypeError, "unexpected keyword", lambda: frame().write_json("/p", rolling="1")),
    (TypeError, "statement_set must be a StatementSet", lambda: frame().write_json("/p", statement_set=1)),
    (ValueError, "same TableEnvironment", lambda: frame().write_json(
        "/p", statement_set=TableEnvironment.create().create_statement_set())),
    (TypeError, "path must be a string", lambda: frame().write_catalog_table(None)),
    (ValueError, "path must not be empty", lambda: frame().write_catalog_table("")),
    (TypeError, "overwrite must be a bool", lambda: frame().write_catalog_table("t", overwrite="yes")),
    (ValueError, "missing", lambda: frame().write_catalog_table("missing")),
    (ValueError, "no_such_connector", lambda: frame().write_generic("no_such_connector", options={})),
    (TypeError, "bootstrap_servers must be a string", lambda: kafka(bootstrap_servers=None)),
    (ValueError, "bootstrap_servers must not be empty", lambda: kafka(bootstrap_servers="")),
    (ValueError, "either 'topic' or 'topic_pattern'", lambda: kafka(topic=None)),
    (ValueError, "mutually exclusive", lambda: kafka(topic_pattern="a")),
    (ValueError, "topic must not be an empty list", lambda: kafka(topic=[])),
    (TypeError, "topic list elements must be strings", lambda: kafka(topic=[1])),
    (TypeError, "topic must be a string", lambda: kafka(topic=1)),
    (TypeError, "topic_pattern must be a string", lambda: kafka(topic=None, topic_pattern=1)),
    (TypeError, "group_id must be a string", lambda: kafka(group_id=1)),
    (ValueError, "value_fields_include must be one of", lambda: kafka(value_fields_include="SOME")),
    (ValueError, "startup_mode must be one of", lambda: kafka(startup_mode="soon")),
    (ValueError, "needs startup_specific_offsets", lambda: kafka(startup_mode="specific-offsets")),
    (ValueError, "needs startup_timestamp_millis", lambda: kafka(startup_mode="timestamp")),
    (TypeError, "startup_timestamp_millis must be an int", lambda: kafka(
        startup_mode="timestamp", startup_timestamp_millis=True)),
    (TypeError, "startup_specific_offsets keys", lambda: kafka(startup_specific_offsets={"1": 2})),
    (TypeError, "bounded_specific_offsets values", lambda: kafka(bounded_specific_offsets={1: "2"})),
    (TypeError, "startup_specific_offsets must be", lambda: kafka(startup_specific_offsets=[])),
    (ValueError, "bounded_mode must be one of", lambda: kafka(bounded_mode="soon")),
    (TypeError, "topic_partition_discovery_interval must be a string", lambda: kafka(
        topic_partition_discovery_interval=1)),
    (TypeError, "key_format must be a string", lambda: kafka(key_format=1)),
    (TypeError, "key_fields must be a list", lambda: kafka(key_fields="id")),
    (ValueError, "key_fields must not be empty", lambda: kafka(key_fields=[])),
    (TypeError, "key_fields elements must be strings", lambda: kafka(key_fields=[1])),
    (TypeError, "key_fields_prefix must be a string", lambda: kafka(key_fields_prefix=1)),
    (ValueError, "properties.bootstrap.servers", lambda: kafka(properties={"bootstrap.servers": "o:1"})),
    (ValueError, "properties.group.id", lambda: kafka(properties={"properties.group.id": "o"})),
    (ValueError, "conflicting values", lambda: kafka(format_options={"a": "1"}, value_format_options={"a": "2"})),
    (ValueError, "scan.startup.mode", lambda: kafka(options={"scan.startup.mode": "latest-offset"})),
    (TypeError, "options must be a dict", lambda: kafka(options=[])),
    (TypeError, "topic must be a string", lambda: to_kafka(topic=None)),
    (ValueError, "topic must not be empty", lambda: to_kafka(topic="")),
    (ValueError, "delivery_guarantee must be one of", lambda: to_kafka(delivery_guarantee="twice")),
    (ValueError, "transactional-id-prefix", lambda: to_kafka(delivery_guarantee="exactly-once")),
    (TypeError, "sink_parallelism must be an int", lambda: to_kafka(sink_parallelism=True)),
    (ValueError, "partitioner must not be empty", lambda: to_kafka(partitioner="")),
    (ValueError, "sink.partitioner", lambda: to_kafka(partitioner="fixed", options={"sink.partitioner": "default"})),
]  # fmt: skip

FUNCTIONS = [
    (TypeError, "Cannot infer return_dtype for '<lambda>': add a return annotation", lambda: ff.udf(lambda v: v)),
    (TypeError, "for 'unclear' from its return annotation.\\nSpecify return_dtype", lambda: ff.udf(unclear)),
    (TypeError, "return_dtype must be a DataFrame DataType, Python type, or SQL", lambda: ff.udf(
        lambda v: v, return_dtype=object())),
    (TypeError, "return_dtype is required for pandas UDFs", lambda: ff.udf(lambda v: v, func_type="pandas")),
    (ValueError, "func_type must be one of 'general, pandas", lambda: ff.udf(lambda v: v, return_dtype=int, func_type="x")),
    (ValueError, "Async scalar functions do not support pandas", lambda: ff.udf(later, return_dtype=int, func_type="pandas")),
    (TypeError, "define the wrapper with async def", lambda: ff.udf(around)),
    (TypeError, "AsyncScalarFunction 'NotAsync': eval must be defined with async def", lambda: ff.udf(NotAsync)),
    (TypeError, "func must be callable, got int", lambda: ff.udf(3)),
    (TypeError, "func must be callable, got NoCall", lambda: ff.udf(NoCall)),
    (TypeError, "Callable class 'Hidden' has an unsupported __call__ definition", lambda: ff.udf(Hidden)),
    (TypeError, "func must be a scalar UDF, got Rows", lambda: ff.udf(Rows)),
    (TypeError, "must have a zero-argument constructor; pass a configured instance", lambda: ff.udf(NeedsArgument)),
    (TypeError, "Invalid functools.partial UDF 'plus'.*unexpected keyword", lambda: ff.udf(
        functools.partial(plus, missing=1))),
    (TypeError, "deterministic must be a bool", lambda: ff.udf(plus, deterministic=1)),
    (ValueError, "Inconsistent deterministic", lambda: ff.udf(Random())),
    (TypeError, "name must be a str or None", lambda: ff.udf(plus, name=1)),
    (ValueError, "name must not be empty", lambda: ff.udf(plus, name="")),
    (TypeError, "async", lambda: ff.udtf(later, return_dtype=int)),
    (TypeError, "func must be a table UDF or a Python callable", lambda: ff.udtf(Scalar, return_dtype=int)),
    (TypeError, "return_dtype", lambda: ff.udtf(lambda record: [])),
    (ValueError, "at least one output field", lambda: ff.udtf(lambda record: [], return_dtype=ff.DataType.struct({}))),
    (ValueError, "one row argument", lambda: frame().flat_map(lambda a, b: [], return_dtype=int)),
    (ValueError, "dict row argument", lambda: frame().flat_map(numbers)),
    (ValueError, "dict row argument", lambda: frame().flat_map(ff.udtf(numbers))),
    (ValueError, "named output fields", lambda: frame().flat_map(two)),
    (ValueError, "return_dtype must not be specified", lambda: frame().flat_map(ff.udtf(Rows), return_dtype=int)),
    (TypeError, "accept Python callables or a declaration", lambda: frame().flat_map(Rows)),
    (TypeError, "func must be callable", lambda: frame().flat_map(None, return_dtype=int)),
    (TypeError, "General UDAFs require an AggregateFunction", lambda: ff.udaf(sum, return_dtype=int)),
    (TypeError, "require an AggregateFunction or a Python callable", lambda: ff.udaf(
        Scalar, return_dtype=int, func_type="pandas")),
    (ValueError, "func_type must be 'general' or 'pandas'", lambda: ff.udaf(Sum, func_type="arrow")),
    (TypeError, "get_result_type.. must return", lambda: ff.udaf(BadType)),
    (TypeError, "UDAFs must be synchronous", lambda: ff.udaf(AsyncSum)),
    (TypeError, "return_dtype", lambda: ff.udaf(lambda values: 1, func_type="pandas")),
    (ValueError, "NULL cannot be NOT NULL", lambda: ff.DataType.null().not_null()),
    (TypeError, "endpoint must be a string", lambda: ff.OpenAIProvider(1, "key")),
    (ValueError, "api_key must not be empty", lambda: ff.OpenAIProvider("e", " ")),
    (TypeError, "unexpected keyword", lambda: ff.OpenAIProvider("e", "key", speed=1)),
    (TypeError, "max_tokens must be an integer", lambda: ff.OpenAIProvider("e", "key", max_tokens=True)),
    (ValueError, "top_p must be at most 1", lambda: ff.OpenAIProvider("e", "key", top_p=2)),
    (ValueError, "response_format must be one of", lambda: ff.OpenAIProvider("e", "key", response_format="xml")),
    (ValueError, "priority must be at most 255", lambda: ff.TritonProvider("e", priority=256)),
    (ValueError, "must be greater than 0", lambda: ff.TritonProvider("e", circuit_breaker_failure_threshold=0)),
    (TypeError, "custom_headers must contain string keys and values", lambda: ff.TritonProvider(
        "e", custom_headers={"a": 1})),
    (TypeError, "Option 'a' must have a string value", lambda: ff.GenericProvider("g", a=1)),
    (TypeError, "provider must be a ModelProvider", lambda: ff.set_model_provider("name")),
    (ValueError, "Model provider 'nobody' is not registered", lambda: ff.set_default_model_provider("nobody")),
]  # fmt: skip


def plus(value: int, more: int = 1) -> int:
    return value + more


def numbers(value: int) -> Iterator[int]:
    yield value


@pytest.fixture(scope="module", autouse=True)
def tables():
    before = ff.get_table_environment()
    environment = TableEnvironment.create()
    ff.set_table_environment(environment)
    environment.create_temporary_view("taken", frame().to_table())
    yield environment
    ff.set_table_environment(before)


@pytest.mark.parametrize(("error", "says", "make"), FRAMES)
def test_mistakes_in_methods(error: type, says: str, make: Any) -> None:
    with pytest.raises(error, match=says):
        make(frame())


@pytest.mark.parametrize(("error", "says", "make"), CREATION + FILES + FUNCTIONS)
def test_mistakes_in_functions(error: type, says: str, make: Any) -> None:
    with pytest.raises(error, match=says):
        make()


@pytest.mark.parametrize(
    "hint", [Names, Names | None, dict[str, Any] | None, int | dict[str, Any], dict, Any, object, "NotThere"]
)
def test_a_record_is_a_dict_of_some_kind(hint):
    def expand(record) -> Iterator[int]:
        yield record["id"]

    expand.__annotations__["record"] = hint
    assert frame().flat_map(expand).columns == frame().flat_map(ff.udtf(expand)).columns == ["f0"]


def test_pandas_hints_choose_pandas():
    def series(values: pd.Series) -> pd.Series:
        return values + 1

    bound = functools.partial(lambda context, value: value, pd.Series([1]))
    bound.func.__annotations__ = {"context": pd.Series, "return": int}
    assert ff.udf(series, return_dtype=int).func_type == "pandas"
    assert ff.udf(bound).func_type == "general"
    assert ff.udf(series, return_dtype=int, func_type="general").func_type == "general"

"""Tables, formats, models and catalogs described by the program instead of in SQL."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.table.catalog import CatalogModel, CatalogTable, TableDistribution
from funken.table.definitions import Typing, completed
from funken.table.schema import Schema
from funken.table.types import quoted


class ExplainDetail(enum.Enum):
    """An additional part of the output of ``explain``."""

    ESTIMATED_COST = 0
    CHANGELOG_MODE = 1
    JSON_EXECUTION_PLAN = 2
    PLAN_ADVICE = 3


@dataclass(frozen=True)
class FormatDescriptor:
    """A format and its options; as part of a table they have its name in front.

    >>> FormatDescriptor.for_format("json").option("ignore-parse-errors", "true").build().get_options()
    {'ignore-parse-errors': 'true'}
    """

    format: str
    options: tuple[tuple[str, str], ...] = ()

    class Builder:
        """Collects options."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._options: dict[str, str] = {}

        def option(self, key: object, value: object) -> FormatDescriptor.Builder:
            """Set an option."""
            self._options[_key(key)] = _value(value)
            return self

        def build(self) -> FormatDescriptor:
            """Return the descriptor."""
            return FormatDescriptor(self._name, tuple(self._options.items()))

    @staticmethod
    def for_format(format: str) -> FormatDescriptor.Builder:
        """Return a builder for a format by its name."""
        return FormatDescriptor.Builder(format)

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value}" for key, value in self.options)
        return f"{self.format}[{{{options}}}]"

    def get_format(self) -> str:
        """Return the name."""
        return self.format

    def get_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self.options)


def _key(key: Any) -> str:
    return str(getattr(key, "key", key))


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _value(value: Any) -> str:
    if value is None:
        raise InvalidProgram("an option is None. Give it a value, or leave it out.")
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class TableDescriptor:
    """A table: connector, schema, options, format, partitions.

    >>> table = TableDescriptor.for_connector("filesystem").option("path", "/data").format("json").build()
    >>> table.get_options()
    {'connector': 'filesystem', 'path': '/data', 'format': 'json'}
    """

    schema: Schema | None
    options: tuple[tuple[str, str], ...]
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    distribution: TableDistribution | None = field(default=None)

    class Builder:
        """Collects the parts of a table."""

        def __init__(self, options: dict[str, str]) -> None:
            self._options = options
            self._schema: Schema | None = None
            self._partitions: tuple[str, ...] = ()
            self._comment: str | None = None
            self._distribution: TableDistribution | None = None

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """Set the schema."""
            self._schema = schema
            return self

        def option(self, key: object, value: object) -> TableDescriptor.Builder:
            """Set an option."""
            self._options[_key(key)] = _value(value)
            return self

        def format(self, format: str | FormatDescriptor, format_option: object = None) -> TableDescriptor.Builder:
            """Set the format, by name or with its options."""
            name = _key(format_option) if format_option is not None else "format"
            if isinstance(format, FormatDescriptor):
                self._options[name] = format.format
                prefix = f"{name.removesuffix('format')}{format.format}."
                self._options.update({f"{prefix}{key}": value for key, value in format.options})
            else:
                self._options[name] = str(format)
            return self

        def partitioned_by(self, *partition_keys: str) -> TableDescriptor.Builder:
            """Set the columns of the partitions."""
            self._partitions = partition_keys
            return self

        def distributed_by(self, number_of_buckets: int, *bucket_keys: str) -> TableDescriptor.Builder:
            """Distribute rows over buckets by columns."""
            self._distribution = TableDistribution(None, bucket_keys, number_of_buckets)
            return self

        def distributed_by_hash(self, number_of_buckets: int, *bucket_keys: str) -> TableDescriptor.Builder:
            """Distribute rows over buckets by the hash of columns."""
            self._distribution = TableDistribution("HASH", bucket_keys, number_of_buckets)
            return self

        def distributed_by_range(self, number_of_buckets: int, *bucket_keys: str) -> TableDescriptor.Builder:
            """Distribute rows over buckets by ranges of columns."""
            self._distribution = TableDistribution("RANGE", bucket_keys, number_of_buckets)
            return self

        def distributed_into(self, number_of_buckets: int) -> TableDescriptor.Builder:
            """Distribute rows over buckets."""
            self._distribution = TableDistribution(None, (), number_of_buckets)
            return self

        def comment(self, comment: str) -> TableDescriptor.Builder:
            """Set a comment."""
            self._comment = comment
            return self

        def build(self) -> TableDescriptor:
            """Return the descriptor."""
            return TableDescriptor(
                self._schema, tuple(self._options.items()), self._partitions, self._comment, self._distribution
            )

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Return a builder for a connector by its name."""
        return TableDescriptor.Builder({"connector": connector})

    @staticmethod
    def for_managed() -> TableDescriptor.Builder:
        """Return a builder without a connector."""
        return TableDescriptor.Builder({})

    def __str__(self) -> str:
        lines = [str(self.schema) if self.schema is not None else ""]
        if self.comment:
            lines.append(f"COMMENT {_text(self.comment)}")
        if self.distribution is not None:
            lines.append(str(self.distribution).strip())
        if self.partition_keys:
            lines.append(f"PARTITIONED BY ({', '.join(map(quoted, self.partition_keys))})")
        options = ",\n".join(f"  {_text(key)} = {_text(value)}" for key, value in self.options)
        return "\n".join([*lines, f"WITH (\n{options}\n)"])

    def get_schema(self) -> Schema | None:
        """Return the schema, if there is one."""
        return self.schema

    def get_options(self) -> dict[str, str]:
        """Return the options, ``connector`` among them."""
        return dict(self.options)

    def get_partition_keys(self) -> list[str]:
        """Return the columns of the partitions."""
        return list(self.partition_keys)

    def get_comment(self) -> str | None:
        """Return the comment, if there is one."""
        return self.comment

    def catalog_table(self, typing: Typing, text: Callable[[Any], Any]) -> CatalogTable:
        """Return the table of a catalog; ``text`` writes expressions of the Table API as SQL."""
        if self.schema is None:
            raise InvalidProgram("the table has no schema; pass one with schema(Schema.new_builder()...build()).")
        schema = self.schema
        columns = [
            column
            if column.expression is None
            else replace(column, expression=text(column.expression), written=str(column.expression))
            for column in schema.columns
        ]
        if len(schema.watermarks) > 1:
            raise InvalidProgram("a table has one watermark at most.")
        marks = [(mark.column, text(mark.expression)) for mark in schema.watermarks]
        table = completed(
            columns, marks[0] if marks else None, schema.key, typing, key_name=schema.key_name or None,
            options=self.options, partition_keys=self.partition_keys, distribution=self.distribution, comment=self.comment,
        )  # fmt: skip
        if table.watermark is None:
            return table
        return replace(table, watermark=replace(table.watermark, written=str(schema.watermarks[0].expression)))


@dataclass(frozen=True)
class ModelDescriptor:
    """A model of ML_PREDICT: its provider, options, columns in and out."""

    options: tuple[tuple[str, str], ...]
    inputs: Schema | None = None
    outputs: Schema | None = None
    comment: str | None = None

    class Builder:
        """Collects the parts of a model."""

        def __init__(self, provider: str) -> None:
            self._options = {"provider": provider}
            self._inputs: Schema | None = None
            self._outputs: Schema | None = None
            self._comment: str | None = None

        def option(self, key: object, value: object) -> ModelDescriptor.Builder:
            """Set an option."""
            self._options[_key(key)] = _value(value)
            return self

        def input_schema(self, input_schema: Schema) -> ModelDescriptor.Builder:
            """Set the columns in."""
            self._inputs = input_schema
            return self

        def output_schema(self, output_schema: Schema) -> ModelDescriptor.Builder:
            """Set the columns out."""
            self._outputs = output_schema
            return self

        def comment(self, comment: str) -> ModelDescriptor.Builder:
            """Set a comment."""
            self._comment = comment
            return self

        def build(self) -> ModelDescriptor:
            """Return the descriptor."""
            return ModelDescriptor(tuple(self._options.items()), self._inputs, self._outputs, self._comment)

    @staticmethod
    def for_provider(provider: str) -> ModelDescriptor.Builder:
        """Return a builder for a provider by its name."""
        return ModelDescriptor.Builder(provider)

    def get_options(self) -> dict[str, str]:
        """Return the options, ``provider`` among them."""
        return dict(self.options)

    def get_input_schema(self) -> Schema | None:
        """Return the columns in."""
        return self.inputs

    def get_output_schema(self) -> Schema | None:
        """Return the columns out."""
        return self.outputs

    def get_comment(self) -> str | None:
        """Return the comment, if there is one."""
        return self.comment

    def catalog_model(self) -> CatalogModel:
        """Return the model of a catalog."""
        inputs, outputs = (() if one is None else one.columns for one in (self.inputs, self.outputs))
        return CatalogModel(inputs, outputs, self.options, self.comment)


@dataclass(frozen=True)
class CatalogDescriptor:
    """A catalog: its name and options.

    >>> CatalogDescriptor.of("mine", {"type": "generic_in_memory"}).get_catalog_name()
    'mine'
    """

    name: str
    configuration: Any
    comment: str | None = None

    @staticmethod
    def of(catalog_name: str, configuration: Any, comment: str | None = None) -> CatalogDescriptor:
        """Return the descriptor of a catalog."""
        return CatalogDescriptor(catalog_name, configuration, comment)

    def get_catalog_name(self) -> str:
        """Return the name."""
        return self.name

    def get_configuration(self) -> Any:
        """Return the options."""
        return self.configuration

    def options(self) -> dict[str, str]:
        """Return the options as texts."""
        values = self.configuration.to_dict() if hasattr(self.configuration, "to_dict") else self.configuration
        return {key: str(value) for key, value in values.items()}

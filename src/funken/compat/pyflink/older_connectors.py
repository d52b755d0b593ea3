"""Connectors of PyFlink 1.x, mapped onto Funken's: ``FlinkKafkaConsumer``, ``FlinkKafkaProducer`` and the JDBC sink.

The Kafka functions stand for a ``KafkaSource`` and a ``KafkaSink``, and warn once with the builder that replaces them.
``JdbcSink`` runs the program's own statement through a ``SqlDatabase``; a JDBC URL says which, and no driver's jar is needed.
"""

from __future__ import annotations

import enum
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self
from urllib.parse import quote, urlsplit

from funken.compat.pyflink.connectors import in_place
from funken.compat.pyflink.members import gets, ignores, replaces
from funken.connectors.kafka import sink as kafka_sink
from funken.connectors.kafka import source as kafka_source
from funken.connectors.kafka.enumerator import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from funken.connectors.kafka.reader import KafkaRecordSerializationSchema
from funken.connectors.postgresql.database import PostgresDatabase
from funken.connectors.schemas import DeserializationSchema, SerializationSchema
from funken.connectors.sink import DeliveryGuarantee
from funken.connectors.sql import EngineDatabase, SqlDatabase, SqliteDatabase, SqlSink
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.io.durations import DurationLike, duration_ms
from funken.types.callables import Generic, T_co

# ---- Kafka

_OF_JAVA = re.compile(
    r"(key|value)\.(de)?serializer|auto\.(offset\.reset|commit\..*)|enable\.auto\.commit|zookeeper\..*"
)
"""Properties that only concern Java's client, or that the source decides itself."""


def _kept(properties: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in properties.items() if not _OF_JAVA.fullmatch(key)}


def _superseded(what: str, instead: str) -> None:
    warnings.warn(
        f"{what} is Flink's older connector; it runs as {instead}. Use that.", DeprecationWarning, stacklevel=3
    )


class FlinkKafkaConsumerBase(Generic[T_co]):
    """Reads topics as a ``KafkaSource``; by default it begins with the offsets of its group, as in Flink."""

    def __init__(
        self,
        topics: str | Sequence[str],
        deserialization_schema: DeserializationSchema[T_co],
        properties: Mapping[str, object],
    ) -> None:
        self._topics = [topics] if isinstance(topics, str) else [*topics]
        self._schema = deserialization_schema
        self._properties = dict(properties or {})
        self._starting = self._group_offsets()

    def _group_offsets(self) -> KafkaOffsetsInitializer:
        reset = {
            "earliest": KafkaOffsetResetStrategy.EARLIEST,
            "none": KafkaOffsetResetStrategy.NONE,
        }.get(str(self._properties.get("auto.offset.reset")), KafkaOffsetResetStrategy.LATEST)
        if "group.id" in self._properties:
            return KafkaOffsetsInitializer.committed_offsets(reset)
        earliest = reset is KafkaOffsetResetStrategy.EARLIEST
        return KafkaOffsetsInitializer.earliest() if earliest else KafkaOffsetsInitializer.latest()

    def set_commit_offsets_on_checkpoints(self, commit_on_checkpoints: bool) -> Self:
        """Commit offsets to the group when a checkpoint is complete, or not."""
        self._properties["commit.offsets.on.checkpoint"] = str(commit_on_checkpoints).lower()
        return self

    def set_start_from_earliest(self) -> Self:
        """Begin with the oldest records."""
        self._starting = KafkaOffsetsInitializer.earliest()
        return self

    def set_start_from_latest(self) -> Self:
        """Begin with the records that come."""
        self._starting = KafkaOffsetsInitializer.latest()
        return self

    def set_start_from_timestamp(self, startup_offsets_timestamp: int) -> Self:
        """Begin with the first records of a timestamp (ms) or later."""
        self._starting = KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp)
        return self

    def set_start_from_group_offsets(self) -> Self:
        """Begin with the offsets that the group has committed."""
        self._starting = self._group_offsets()
        return self

    disable_filter_restored_partitions_with_subscribed_topics = ignores(
        "", "Accept and ignore: partitions of a checkpoint are read on."
    )

    def get_produced_type(self) -> Any:
        """Return the type of the schema, if it has one."""
        return getattr(self._schema, "type_info", None)

    def as_source(self) -> kafka_source.KafkaSource[T_co]:
        """Return the source that it stands for."""
        builder = kafka_source.KafkaSource.builder().set_topics(*self._topics).set_properties(_kept(self._properties))
        return builder.set_starting_offsets(self._starting).set_value_only_deserializer(self._schema).build()


class FlinkKafkaConsumer(FlinkKafkaConsumerBase[T_co], Generic[T_co]):
    """Reads topics as a ``KafkaSource``.

    >>> import warnings
    >>> from funken.compat.pyflink.formats import SimpleStringSchema
    >>> warnings.simplefilter("ignore", DeprecationWarning)
    >>> consumer = FlinkKafkaConsumer("orders", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"})
    >>> source = consumer.set_start_from_earliest().as_source()
    >>> source.servers, source.subscription.topics, source.starting == KafkaOffsetsInitializer.earliest()
    ('localhost:9092', ('orders',), True)
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        deserialization_schema: DeserializationSchema[T_co],
        properties: Mapping[str, object],
    ) -> None:
        _superseded("FlinkKafkaConsumer", "a KafkaSource, as of KafkaSource.builder()")
        super().__init__(topics, deserialization_schema, properties)


class Semantic(enum.Enum):
    """The guarantee of a ``FlinkKafkaProducer``."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class FlinkKafkaProducerBase:
    """Writes to a topic as a ``KafkaSink``."""

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, object],
        semantic: Semantic,
    ) -> None:
        self._topic = topic
        self._schema = serialization_schema
        self._properties = dict(producer_config or {})
        self._semantic = semantic

    set_log_failures_only = ignores(
        "log_failures_only", "Accept and ignore: a record that cannot be written fails the job."
    )

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> FlinkKafkaProducerBase:
        """Wait for sent messages when a checkpoint is made, or guarantee nothing."""
        if not flush_on_checkpoint:
            self._semantic = Semantic.NONE
        return self

    set_write_timestamp_to_kafka = ignores(
        "write_timestamp_to_kafka", "Accept and ignore: records carry their timestamps."
    )

    def as_sink(self) -> kafka_sink.KafkaSink:
        """Return the sink that it stands for."""
        schema = KafkaRecordSerializationSchema.builder().set_topic(self._topic)
        builder = kafka_sink.KafkaSink.builder().set_properties(_kept(self._properties))
        builder = builder.set_bootstrap_servers(str(self._properties.get("bootstrap.servers", "")))
        builder = builder.set_record_serializer(schema.set_value_serialization_schema(self._schema).build())
        if self._semantic is Semantic.EXACTLY_ONCE:
            builder = builder.set_transactional_id_prefix(f"flink-kafka-producer-{self._topic}")
        return builder.set_delivery_guarantee(DeliveryGuarantee[self._semantic.name]).build()


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """Writes to a topic as a ``KafkaSink``.

    >>> import warnings
    >>> from funken.compat.pyflink.formats import SimpleStringSchema
    >>> warnings.simplefilter("ignore", DeprecationWarning)
    >>> producer = FlinkKafkaProducer("totals", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"})
    >>> producer.as_sink().guarantee.name
    'AT_LEAST_ONCE'
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, object],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        _superseded("FlinkKafkaProducer", "a KafkaSink, as of KafkaSink.builder()")
        super().__init__(topic, serialization_schema, producer_config, semantic)

    ignore_failures_after_transaction_timeout = ignores(
        "", "Accept and ignore: a transaction that has timed out fails the restore, and the error names the loss."
    )


# ---- JDBC


@dataclass(frozen=True)
class JdbcConnectionOptions:
    """The connection to a database.

    >>> builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db.example:5432/shop")
    >>> options = builder.with_driver_name("org.postgresql.Driver").with_user_name("ada").with_password("secret").build()
    >>> options.get_db_url(), options.get_user_name(), options.database()
    ('jdbc:postgresql://db.example:5432/shop', 'ada', PostgresDatabase('host=db.example port=5432 dbname=shop user=ada'))
    """

    JdbcConnectionOptionsBuilder: ClassVar[type[JdbcConnectionOptions]]

    url: str = ""
    driver_name: str | None = None
    user_name: str | None = None
    password: str | None = None

    with_url = replaces[str]("url", "url", "Set the JDBC URL.")
    with_driver_name = replaces[str]("driver_name", "driver_name", "Remember the driver's class; nothing uses it.")
    with_user_name = replaces[str]("user_name", "user_name", "Set the user.")
    with_password = replaces[str]("password", "password", "Set the password.")

    def build(self) -> JdbcConnectionOptions:
        """Return the options; raises ``InvalidConfiguration`` for a URL of no database that is known."""
        self.database()
        return self

    get_db_url = gets[str]("url", "Return the URL.")
    get_driver_name = gets[str | None]("driver_name", "Return the driver's class.")
    get_user_name = gets[str | None]("user_name", "Return the user.")
    get_password = gets[str | None]("password", "Return the password.")

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions({self.url.partition('?')[0]!r})"

    def database(self) -> SqlDatabase:
        """Return the database that the URL names."""
        kind, _, rest = self.url.removeprefix("jdbc:").partition(":")
        if self.url.startswith("jdbc:sqlite:"):
            return SqliteDatabase(rest)
        if not self.url.startswith("jdbc:") or kind not in _DIALECTS:
            raise InvalidConfiguration(
                f"the JDBC URL names no database that is known here ({', '.join(_DIALECTS)}, sqlite). Write to another one with "
                "funken.connectors.sql.SqlSink and an EngineDatabase, which takes the URLs of SQLAlchemy."
            )
        address = urlsplit(rest)
        who = quote(self.user_name or "", safe="")
        who += f":{quote(self.password, safe='')}" if self.password else ""
        query = "" if kind != "postgresql" or not address.query else f"?{address.query}"
        url = f"{_DIALECTS[kind]}://{who}{'@' if who else ''}{address.netloc}{address.path}{query}"
        return PostgresDatabase(url) if kind == "postgresql" else EngineDatabase(url)


_DIALECTS = {"postgresql": "postgresql", "mysql": "mysql+pymysql", "mariadb": "mysql+pymysql"}


JdbcConnectionOptions.JdbcConnectionOptionsBuilder = in_place(
    JdbcConnectionOptions, "Describes how a database is reached."
)


@dataclass(frozen=True)
class JdbcExecutionOptions:
    """The size of batches of rows; rows are written when a block of records comes, so the interval has no effect.

    >>> JdbcExecutionOptions.builder().with_batch_size(200).with_batch_interval_ms(100).build().get_batch_size()
    200
    >>> JdbcExecutionOptions.defaults().get_max_retries()
    3
    """

    batch_size: int = 5000
    batch_interval_ms: int = 0
    max_retries: int = 3
    Builder: ClassVar[type[JdbcExecutionOptions]]

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return the defaults."""
        return JdbcExecutionOptions()

    @staticmethod
    def builder() -> JdbcExecutionOptions:
        """Start to describe others."""
        return JdbcExecutionOptions.Builder()

    with_batch_size = replaces[int]("batch_size", "size", "Write at most so many rows in a transaction.")
    with_batch_interval_ms = replaces[DurationLike](
        "batch_interval_ms", "interval_ms", "Remember a time; rows do not wait.", duration_ms
    )
    with_max_retries = replaces[int](
        "max_retries", "max_retries", "Remember a number; transient errors are retried three times."
    )
    build = ignores("", "Return the options.")
    get_batch_size = gets[int]("batch_size", "Return the highest number of rows in a transaction.")
    get_batch_interval_ms = gets[int]("batch_interval_ms", "Return the setting.")
    get_max_retries = gets[int]("max_retries", "Return the setting.")


JdbcExecutionOptions.Builder = in_place(JdbcExecutionOptions, "Describes how rows are written.")


@dataclass(frozen=True)
class StatementSink(SqlSink):
    """Runs a statement of the program for each record, whose fields are its parameters, in order."""

    statement: str = ""

    def look(self, cursor: Any) -> None:
        """Let the database look at the statement, if it is one that can be explained."""
        if re.match(r"\s*(insert|update|delete|replace)\b", self.statement, re.IGNORECASE):
            cursor.execute(f"EXPLAIN {self._marked()}", (None,) * len(self.columns))

    def insert(self, cursor: Any, rows: list[tuple[Any, ...]]) -> None:
        """Run the statement for the rows."""
        cursor.executemany(self._marked(), rows)

    def _marked(self) -> str:
        """Return the statement with the database's own marks for parameters; those in quotes are text."""
        number, mark = 0, self.database.placeholder
        parts = re.split(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")", self.statement)
        for place, part in enumerate(parts):
            text = part.replace("%", "%%") if mark == "%s" else part
            if place % 2 == 0:
                pieces = text.split("?")
                marks = [f":{number + 1 + each}" if mark == ":1" else mark for each in range(len(pieces) - 1)]
                number += len(marks)
                text = "".join(piece + mark for piece, mark in zip(pieces, [*marks, ""], strict=True))
            parts[place] = text
        return "".join(parts)


class JdbcSink:
    """Writes records with a statement; at least once.

    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from funken import Types
    >>> from funken.testing import local
    >>> with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/shop.db")) as db:
    ...     _ = db.execute("CREATE TABLE prices (item, price)")
    ...     options = JdbcConnectionOptions(f"jdbc:sqlite:{folder}/shop.db")
    ...     of_prices = Types.ROW_NAMED(["item", "price"], [Types.STRING(), Types.INT()])
    ...     prices = local([("tea", 3)])
    ...     _ = prices.sink_to(JdbcSink.sink("insert into prices values (?, ?)", of_prices, options))
    ...     _ = prices.get_execution_environment().execute()
    ...     db.execute("SELECT * FROM prices").fetchall()
    [('tea', 3)]
    """

    @staticmethod
    def sink(
        sql: str, type_info: Any, jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> StatementSink:  # fmt: skip
        """Return a sink that runs a statement with ``?`` for each field of the declared row type."""
        marks = len(re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", "", sql).split("?")) - 1
        columns = tuple(type_info.get_field_names())
        if marks != len(columns):
            raise InvalidConfiguration(
                f"the statement of JdbcSink.sink() has {marks} parameters (?), but its type {len(columns)} fields "
                f"({', '.join(columns)}). Write one ? for each field, in their order."
            )
        found = re.search(r"(?:into|update|from)\s+([^\s(]+)", sql, re.IGNORECASE)
        return StatementSink(
            jdbc_connection_options.database(),
            found[1] if found else sql,
            columns,
            batch_size=(jdbc_execution_options or JdbcExecutionOptions()).batch_size,
            statement=sql,
        )

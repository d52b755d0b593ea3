"""What the attacked job writes to: Kafka, PostgreSQL, Delta or files. Each gives a sink to the job, and what a reader sees of it.

A target travels to the job as its ``arguments``. Its server, if it has one, can be killed and started again.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from funken import Encoder, FileSink
from funken.connectors import DeliveryGuarantee, SimpleStringSchema, Sink
from funken.connectors.delta import DeltaSink
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from funken.connectors.postgresql import PostgresDatabase, PostgresSink

EXACTLY = DeliveryGuarantee.EXACTLY_ONCE


def sink_of(kind: str, where: str, name: str, expires_ms: int) -> Sink[Any]:
    """Return the sink of a target, by its arguments; results are text, and Kafka's transactions may be open for some ms."""
    if kind == "kafka":
        serializer = KafkaRecordSerializationSchema.builder().set_topic(name)
        return (
            KafkaSink.builder()
            .set_bootstrap_servers(where)
            .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
            .set_delivery_guarantee(EXACTLY)
            .set_transactional_id_prefix(f"job-{name}")
            .set_property("transaction.timeout.ms", str(expires_ms))
            .build()
        )
    if kind == "postgresql":
        database = PostgresDatabase(where)
        return PostgresSink(database, name, ("result",), guarantee=EXACTLY, transaction_prefix=f"job-{name}")
    if kind == "delta":
        return DeltaSink(where)
    return FileSink.for_row_format(where, Encoder.simple_string_encoder()).build()


def takes_rows(kind: str) -> bool:
    """Whether the sink takes rows of one column, and not text."""
    return kind in ("postgresql", "delta")


class Target:
    """Where one round writes to."""

    kind = ""

    def __init__(self, where: str, name: str, server: Any = None) -> None:
        self.arguments = [self.kind, where, name]
        self.where, self.name = where, name
        #: what can be killed between prepare and commit; ``None``: nothing but processes of the job
        self.server = server

    def seen(self) -> Counter[str]:
        """Return what a reader sees, and how often."""
        raise NotImplementedError

    def evidence(self) -> Any:
        """Return what helps to explain a result that is wrong, as JSON takes it."""
        return None


class KafkaTarget(Target):
    """A topic, read with ``read_committed``."""

    kind = "kafka"

    def __init__(self, folder: Path, broker: Any) -> None:
        super().__init__(broker.servers, broker.topic(partitions=2), broker)

    def seen(self) -> Counter[str]:
        """Return the messages."""
        return Counter(self.server.values(self.name))

    def evidence(self) -> Any:
        """Return what is open, and where each message of the topic is; offsets between them are markers or aborted."""
        held = self.server.what_readers_wait_for(self.name)
        there = [(each.partition(), each.offset(), each.value().decode()) for each in self.server.read(self.name)]
        return {"held": held, "visible": there}


class PostgresTarget(Target):
    """A table of one column."""

    kind = "postgresql"

    def __init__(self, folder: Path, server: Any) -> None:
        super().__init__(server.conninfo, server.table("result text"), server)

    def seen(self) -> Counter[str]:
        """Return the rows."""
        return Counter(row[0] for row in self.server.execute(f"SELECT result FROM {self.name}"))


class DeltaTarget(Target):
    """A Delta table of one column."""

    kind = "delta"

    def __init__(self, folder: Path, server: Any) -> None:
        import pyarrow as pa  # noqa: PLC0415 - of this target only
        from deltalake import DeltaTable  # noqa: PLC0415 - a part of an extra

        where = str(folder / "table")
        DeltaTable.create(where, schema=pa.schema([("result", pa.string())]))
        super().__init__(where, folder.name)

    def seen(self) -> Counter[str]:
        """Return the rows of the newest version."""
        from deltalake import DeltaTable  # noqa: PLC0415 - the same

        return Counter(DeltaTable(self.where).to_pyarrow_table()["result"].to_pylist())


class FilesTarget(Target):
    """Files of lines; those in progress have a name that begins with a dot."""

    kind = "files"

    def __init__(self, folder: Path, server: Any) -> None:
        super().__init__(str(folder / "out"), folder.name)

    def seen(self) -> Counter[str]:
        """Return the lines of the files that are finished."""
        found: Counter[str] = Counter()
        for file in Path(self.where).rglob("part-*"):
            found.update(file.read_text().splitlines())
        return found


TARGETS: dict[str, type[Target]] = {
    each.kind: each for each in (KafkaTarget, PostgresTarget, DeltaTarget, FilesTarget)
}  # fmt: skip

__all__ = ["TARGETS", "Target", "sink_of", "takes_rows"]

"""The simulation with the real Kafka sink: results go into a model of the brokers' transaction log, and requests get lost.

Records of a block are accepted in part, requests do not arrive, replies are lost (the driver may die of it), coordinators load.
"""

import ast
import itertools
from collections import Counter
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

from funken.connectors import DeliveryGuarantee, SerializationSchema
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from funken.operators.coordinators import CommitSettings
from tests.support.simulation.ledgers import Ledger, Violation
from tests.support.simulation.run import Simulation
from tests.support.transaction_log import (
    FENCED,
    INVALID_STATE,
    LOGS,
    UNKNOWN,
    ModelAdmin,
    ModelProducer,
    ModelTransport,
    TransactionLog,
)


class SimulatedLog(TransactionLog):
    """A log whose faults a simulation draws, so that they end when it is to become calm."""

    def __init__(self, simulation):
        super().__init__(simulation.outcomes.seed)
        self.simulation = simulation
        self.often = simulation.conditions.commit_faults or simulation.conditions.lost_acks
        self.asked = Counter()

    def fault(self, ask, codes=True):
        self.faults = 1.0 if self.simulation.happens(self.often) else 0.0
        self.forgets = 0.2 if self.simulation.happens(self.often) else 0.0
        try:
            return super().fault(ask, codes)
        finally:
            self.faults = self.forgets = 0.0

    def write(self, transactional_id, epoch, records):
        """Take all, or the beginning, which is a torn write: the client gives up."""
        torn = self.simulation.happens(self.often / 10)
        self.asked["torn"] += torn
        code = super().write(transactional_id, epoch, records[: len(records) // 2] if torn else records)
        return code or torn


@dataclass(frozen=True)
class SimulatedTransport(ModelTransport):
    """Leads to the log; who commits may die before a request, or before its reply."""

    def producer(self, properties, who):
        return ModelProducer(LOGS[self.name], properties)

    def transactions(self, servers, properties):
        return DyingAdmin(LOGS[self.name])


class DyingAdmin(ModelAdmin):
    def end(self, transaction, commit):
        fault = self.log.simulation.ledger.fault if commit else lambda: None
        fault()
        code = super().end(transaction, commit)
        self.log.asked[code] += 1
        if commit and code in (FENCED, INVALID_STATE, UNKNOWN):
            raise Violation(f"{transaction} is to be committed, but it was given up ({code})")
        fault()
        return code


class TransactionLedger(Ledger):
    """What a ``read_committed`` reader sees of the log; transactions stay open when their writers die."""

    def __init__(self, simulation):
        super().__init__(fault=simulation.ledger.fault)
        self.log = SimulatedLog(simulation)

    def give_up(self):
        pass

    def results(self):
        return Counter(ast.literal_eval(each) for each in self.log.visible)

    def sink(self, name, tag):
        LOGS[name] = self.log
        serializer = KafkaRecordSerializationSchema.builder().set_topic("results")
        sink = (
            KafkaSink.builder()
            .set_bootstrap_servers("model:1")
            .set_record_serializer(serializer.set_value_serialization_schema(TaggedSchema(tag)).build())
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .set_transactional_id_prefix("job")
            .build()
        )
        return replace(sink, transport=SimulatedTransport(name))


@dataclass(frozen=True)
class TaggedSchema(SerializationSchema):
    """Values and the tag of their sink, as Python writes them."""

    tag: int

    def serialize(self, value):
        return repr((self.tag, value)).encode()


def at_once(name, work):
    """Stand for a thread, without which a run is the same each time."""
    result = Future()
    try:
        result.set_result(work())
    except Exception as error:  # noqa: BLE001 - raised where the result is asked for
        result.set_exception(error)
    return result


@contextmanager
def without_waiting():
    """Neither threads nor pauses, names that are the same each time, and so many retries that faults end before them."""
    numbers = itertools.count()
    with ExitStack() as around:
        around.enter_context(
            patch("funken.connectors.kafka.sink.secrets.token_hex", lambda bytes: f"{next(numbers):0{2 * bytes}x}")
        )
        around.enter_context(patch("funken.connectors.kafka.sink.in_daemon", at_once))
        around.enter_context(patch("funken.operators.coordinators._FIRST_PAUSE", 0))
        around.enter_context(patch.object(CommitSettings, "of", lambda configuration: CommitSettings(retries=100)))
        yield


class TransactionSimulation(Simulation):
    """One run that writes to Kafka."""

    def __init__(self, seed, **conditions):
        super().__init__(seed, files=False, **conditions)
        self.ledger = TransactionLedger(self)

    def run(self):
        """Run to the end."""
        try:
            with without_waiting():
                return super().run()
        finally:
            LOGS.pop(self.name, None)

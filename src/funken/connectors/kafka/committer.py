"""The committer of an exactly-once Kafka sink, on the driver.

At a recovery it commits what the checkpoint names, and then aborts and fences what else bears the sink's prefix:
transactions of writers whose checkpoint was never completed. Until that is done no writer runs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

from funken.connectors.context import CommitterContext
from funken.connectors.kafka.transactions import (
    CONCURRENT_TRANSACTIONS,
    NOT_ALLOWED,
    RETRIABLE,
    OpenTransaction,
    PreparedTransaction,
    TransactionAdmin,
    error_name,
)
from funken.connectors.kafka.transport import SinkSettings
from funken.connectors.sink import CommitOutcome, CommitRequest, Committer
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.timing.clock import SystemClock

logger = logging.getLogger(__name__)

_TRIES, _PAUSE_S, _RECOVERY_S = 100, 0.3, 60.0
_SETTLES, _SETTLE_S = 100, 0.02
_COMMITTED = ("CompleteCommit", "PrepareCommit")


class KafkaCommitter(Committer):
    """Ends transactions that writers, perhaps of processes that are gone, have prepared."""

    def __init__(self, sink: SinkSettings, context: CommitterContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._who = f"operator {context.operator!r}"
        self._admin: TransactionAdmin
        self._opened = False
        self._prefix = sink.ids_of(context.operator_uid or context.operator)
        self._mine = re.compile(re.escape(self._prefix) + r"\d+/[0-9a-f]{8}/\d+").fullmatch

    def open(self) -> None:
        """Compare the timeout of transactions with the time between checkpoints."""
        interval, timeout = self.context.checkpoint_interval, self._sink.transaction_timeout
        if interval is not None and timeout <= interval:
            raise InvalidConfiguration(
                f"{self._who}: transactions of the Kafka sink expire after {timeout} ms (transaction.timeout.ms), but "
                f"checkpoints are {interval} ms apart, so none would be committed in time; set a longer timeout or a shorter "
                "interval."
            )
        self._admin = self._sink.transport.transactions(self._sink.servers, self._sink.client_properties())
        self._opened = True

    def close(self) -> None:
        """Close the connections; also if ``open`` has raised."""
        if self._opened:
            self._admin.close()

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit transactions; one that is committed already is committed again without effect."""
        for request in requests:
            self._commit(request, PreparedTransaction(*request.committable))
        done = [each for each in requests if each.outcome not in (CommitOutcome.RETRY_LATER, CommitOutcome.FAILED)]
        for request in done:
            self._settle(request, PreparedTransaction(*request.committable).transactional_id)
        if any(request.retries for request in done):  # brokers were away, and may have forgotten something
            reason = self._without_markers()
            for request in done if reason else ():
                request.retry_later(reason)

    def _settle(self, request: CommitRequest, name: str) -> None:
        """Wait a little until the markers are written: who is asked until then has not been killed before."""
        try:
            for _ in range(_SETTLES):
                if self._admin.describe(name).state != "PrepareCommit":
                    return
                self._sink.transport.pause(_SETTLE_S)
        except OSError as error:
            request.retry_later(f"the coordinator of {name!r} has not answered that all is written: {error}")

    def _commit(self, request: CommitRequest, transaction: PreparedTransaction) -> None:
        try:
            code = self._admin.end(transaction, commit=True)
            if code in RETRIABLE and code != CONCURRENT_TRANSACTIONS:
                request.retry_later(f"the coordinator of {transaction.transactional_id!r} says {error_name(code)}")
            elif code:
                self._rejected(request, transaction, code)
        except OSError as error:
            request.retry_later(f"the coordinator of {transaction.transactional_id!r} does not answer: {error}")

    def _rejected(self, request: CommitRequest, transaction: PreparedTransaction, code: int) -> None:
        """The coordinator rejects the commit: it was committed before, is lost, or can be tried again.

        One that was committed and is still being written into its partitions is rejected as concurrent, and nothing can undo it.
        """
        now = self._admin.describe(transaction.transactional_id)
        if now.state in _COMMITTED and (now.producer_id, now.epoch) == transaction[1:]:
            request.already_committed()
            return
        if now.state == "Ongoing" and (now.producer_id, now.epoch) == transaction[1:]:  # as it was: nothing is lost
            request.retry_later(f"the coordinator of {transaction.transactional_id!r} says {error_name(code)}")
            return
        request.failed(
            f"transaction {transaction.transactional_id!r} (producer {transaction.producer_id}, epoch {transaction.epoch}) "
            f"cannot be committed ({error_name(code)}; it is {now.state or 'unknown'}, producer {now.producer_id}, epoch "
            f"{now.epoch}), so its records are lost. Did it expire (transaction.timeout.ms), did another job with this "
            "transactional id prefix abort it, or is the checkpoint older than what the brokers remember "
            "(transactional.id.expiration.ms)? Set a timeout that exceeds the longest outage, and start from an earlier "
            "checkpoint or savepoint, if its sources still have the records"
        )

    def recover(self, requests: Sequence[CommitRequest]) -> None:
        """Commit what the checkpoint names, then abort and fence all other transactions of the sink."""
        self.commit(requests)
        named = {PreparedTransaction(*request.committable).transactional_id for request in requests}
        clock = SystemClock()
        # Bounded well below sink.committer.timeout: a recovery that outlives its attempt would fence the writers of the next.
        end = clock.monotonic() + _RECOVERY_S
        reason, fenced = "", False
        for _ in range(_TRIES):
            if not fenced:
                left, reason = self._lingering(named, lambda: clock.monotonic() >= end)
                fenced = not left and not reason
            if fenced:
                reason = self._without_markers()
                if not reason:
                    return
            if clock.monotonic() >= end:
                break
            self._sink.transport.pause(_PAUSE_S)
        raise SinkNotWritable(
            f"{self._who}: transactions of an earlier attempt cannot be aborted ({reason}); is {self._sink.servers!r} "
            "well, and may this user describe and write transactional ids with the prefix?",
            self.context.operator,
        )

    def _lingering(self, named: set[str], late: Callable[[], bool] = lambda: False) -> tuple[int, str]:
        """Fence transactions of the sink that are not named; returns how many could not be, and why.

        What is open is found again until it is aborted; ids that were only initialized are fenced once.
        """
        left, reason = 0, ""
        try:
            for transactional_id, state in self._admin.in_states(["Ongoing", "Empty"], self._prefix).items():
                if transactional_id in named or not self._mine(transactional_id):
                    continue
                if late():
                    return left + 1, reason or "the brokers answer too slowly"
                code = self._admin.fence(transactional_id)
                if code:
                    left, reason = left + 1, f"{transactional_id!r}: {error_name(code)}"
                elif state == "Ongoing":
                    logger.info("%s: aborted transaction %r of an earlier attempt", self._who, transactional_id)
        except OSError as error:
            return left + 1, str(error)
        return left, reason

    def _without_markers(self) -> str:
        """Write what ends transactions into partitions that their coordinator has forgotten; returns what is left to be done.

        A broker that is killed between a commit and its markers, and started again, may take the partitions for deleted (Kafka
        4.3): then the transaction is complete, and in the partitions it stays open, with all that comes behind it.
        """
        topic = self._sink.serializer.topic
        if not isinstance(topic, str) or not topic:
            return ""
        reason = ""
        try:
            for leader, partitions in self._sink.transport.leaders(self._sink, topic).items():
                found = self._admin.open_in(leader, topic, partitions)
                names = self._admin.names_of(each.producer_id for each in found) if found else {}
                for each in found:
                    name = names.get(each.producer_id, "")
                    if self._mine(name):
                        reason = self._mark(name, leader, topic, each) or reason
        except PermissionError:
            return ""  # who may not read the topic cannot look
        except OSError as error:
            return str(error)
        return reason

    def _mark(self, name: str, leader: tuple[str, int], topic: str, found: OpenTransaction) -> str:
        now = self._admin.describe(name)
        if now.state in ("PrepareCommit", "PrepareAbort"):
            return f"the coordinator of {name!r} is still writing markers"
        commit = now.state == "CompleteCommit" and now[1:] == (found.producer_id, found.epoch)
        if not commit and now.state not in ("CompleteAbort", "Empty"):
            return ""  # a writer is at it
        code = self._admin.mark(leader, topic, found, commit)
        if code == NOT_ALLOWED:
            raise SinkNotWritable(
                f"{self._who}: transaction {name!r} is {now.state}, but partition {found.partition} of topic {topic!r} has no "
                "marker of it, because a broker was killed before it wrote one: readers wait for it. This user may not "
                "write one; allow it the operation ClusterAction on the cluster, and start the job again.",
                self.context.operator,
            )
        if code:
            return f"no marker of {name!r} can be written: {error_name(code)}"
        logger.warning(
            "%s: wrote the missing marker (%s) of transaction %r into partition %d of topic %r",
            self._who, "commit" if commit else "abort", name, found.partition, topic,
        )  # fmt: skip
        return ""

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Abort transactions that are in no checkpoint, so that readers need not wait for their timeout."""
        for request in requests:
            transaction = PreparedTransaction(*request.committable)
            try:
                code = self._admin.end(transaction, commit=False)
            except OSError as error:
                logger.warning("%s: %r is not aborted: %s", self._who, transaction.transactional_id, error)
                continue
            if code:
                logger.warning("%s: %r is not aborted: %s", self._who, transaction.transactional_id, error_name(code))


__all__ = ["KafkaCommitter"]

"""A real Kafka broker (KRaft, one node) on loopback, for tests: its jars come from Maven Central, once.

``mvn`` resolves and verifies them (checksums that do not match fail), into Funken's part of the user's cache.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import uuid
from pathlib import Path

from funken.connectors.kafka.connection import BrokerTransactionAdmin, Connection, Security, compact_text, uvarint
from funken.io.temporary import cache_folder
from funken.spark.java import ensure_java
from funken.timing.clock import SystemClock

VERSION = "4.3.1"
READY_S = 240
STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
USER, PASSWORD = "alice", "open-sesame"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>funken</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>"""


def jars():
    """The folder of the broker's jars, or why there is none."""
    home = cache_folder() or Path(tempfile.gettempdir(), "funken")
    folder = home / "services" / f"kafka-{VERSION}"
    if folder.is_dir():
        return folder, ""
    if shutil.which("mvn") is None:
        return (
            None,
            "Kafka's jars are not there, and Maven to fetch them neither (Debian, Ubuntu: apt-get install maven)",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        Path(work, "pom.xml").write_text(POM.format(version=VERSION))
        run = [
            "mvn",
            "-q",
            "-B",
            "-C",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=libs",
        ]
        done = subprocess.run(run, cwd=work, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            return None, f"Maven cannot fetch Kafka's jars: {(done.stdout + done.stderr).strip().splitlines()[:1]}"
        os.replace(Path(work, "libs"), folder)
    return folder, ""


_random = random.SystemRandom()  # Hypothesis seeds the other one


def free_port():
    """Return a port for a server that is to start; a connection of another test would take one that the system proposes."""
    for _ in range(1000):
        port = _random.randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port from 20000 to 32000 is free")


class KafkaBroker:
    """One broker on free ports, with its data in a folder; ``stop`` and ``kill`` end it by its process id."""

    def __init__(self, folder, libraries, **properties):
        self.folder, self.port = Path(folder), free_port()
        self.servers = f"127.0.0.1:{self.port}"
        #: another listener, with TLS and SASL (PLAIN and SCRAM-SHA-256), where there is an openssl to make a certificate
        secure = self._certificate()
        self.secure_servers = f"127.0.0.1:{secure}" if secure else None
        controller = free_port()
        java = Path(ensure_java(), "bin", "java")
        self._command = [
            str(java), "-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{libraries}/*"
        ]  # fmt: skip
        self._properties = self.folder / "server.properties"
        clients = [f"PLAINTEXT://{self.servers}"] + ([f"SECURE://{self.secure_servers}"] if secure else [])
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([f"CONTROLLER://127.0.0.1:{controller}", *clients]),
            "advertised.listeners": ",".join(clients),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
            "log.dirs": self.folder / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 2,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 2,
            "transaction.max.timeout.ms": 3_600_000,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
            # Brokers delete by the records' timestamps, which are those of events: windows of 1970 last some seconds.
            "log.retention.ms": -1,
            **(self._security() if secure else {}),
            **properties,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self._process = None

    def _certificate(self):
        """Make a certificate for loopback; returns the port of the secure listener."""
        if shutil.which("openssl") is None:
            return None
        self.ca = self.folder / "certificate.pem"
        key = self.folder / "key.pem"
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(self.ca)]
        subprocess.run(make, check=True, capture_output=True, timeout=60)
        (self.folder / "keystore.pem").write_text(key.read_text() + self.ca.read_text())
        return free_port()

    def _security(self):
        of, module = "listener.name.secure.", "org.apache.kafka.common.security"
        return {
            f"{of}ssl.keystore.type": "PEM",
            f"{of}ssl.keystore.location": self.folder / "keystore.pem",
            f"{of}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            f"{of}plain.sasl.jaas.config": f'{module}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            f"{of}scram-sha-256.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
        }

    def secure_properties(self, mechanism, password=None):
        """What a client needs for the secure listener."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": password or PASSWORD,
            "ssl.ca.location": str(self.ca),
        }

    def start(self, wait=True):
        if not (self.folder / "data" / "meta.properties").exists():
            tool = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties), "--standalone"]
            tool += ["--add-scram", f"SCRAM-SHA-256=[name={USER},password={PASSWORD}]"]
            subprocess.run([*self._command, *tool], check=True, capture_output=True, timeout=READY_S)
        with open(self.folder / "broker.log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "kafka.Kafka", str(self._properties)], stdout=log, stderr=subprocess.STDOUT
            )
        if wait:
            self._until_ready()
        return self

    @property
    def pid(self):
        return self._process.pid if self._process else None

    def _until_ready(self):
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        clock = SystemClock()
        end = clock.monotonic() + READY_S
        while clock.monotonic() < end:
            if self._process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1):
                    pass
                AdminClient({"bootstrap.servers": self.servers, "log_level": 0}).list_topics(timeout=5)
                return
            except (OSError, KafkaException):
                self._pause()
        raise RuntimeError(f"the broker is not ready after {READY_S} s: {self.log()[-2000:]}")

    def _pause(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.1)

    def log(self):
        return (self.folder / "broker.log").read_text(errors="replace")

    def stop(self, with_signal=signal.SIGTERM):
        if self._process is not None:
            self._process.send_signal(with_signal)
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(60)
            self._process = None

    def kill(self):
        self.stop(signal.SIGKILL)

    # ---- what tests do with it

    def topic(self, partitions=4, name=None, **settings):
        """Create a topic, by default with a name of its own."""
        from confluent_kafka.admin import AdminClient, NewTopic

        name = name or f"t-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(60)
        return name

    def produce(self, topic, values, keys=None, partition=None, transactional=None, commit=True):
        """Write values, spread over the partitions, or in a transaction."""
        from confluent_kafka import Producer

        own = {"transactional.id": transactional} if transactional else {}
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, "enable.idempotence": True, **own})
        if transactional:
            producer.init_transactions(60)
            producer.begin_transaction()
        for index, value in enumerate(values):
            more = {} if partition is None else {"partition": partition}
            producer.produce(topic, value, key=keys[index] if keys else str(index), **more)
            if index % 1000 == 999:
                producer.flush(60)
        assert producer.flush(60) == 0
        if transactional:
            (producer.commit_transaction if commit else producer.abort_transaction)(60)

    def read(self, topic, isolation="read_committed"):
        """Return all messages that a reader sees now."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "tests",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
            found, ended = [], set()
            while len(ended) < len(partitions):
                messages = consumer.consume(1000, 0.05) or [consumer.poll(60)]
                for message in messages:
                    assert message is not None, "the broker does not answer"
                    if message.error() is None:
                        found.append(message)
                    else:
                        assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                        ended.add(message.partition())
            return found
        finally:
            consumer.close()

    def values(self, topic):
        """Return what is visible when commits that were answered have got their markers into the partitions."""
        self._settle()
        return [message.value().decode() for message in self.read(topic)]

    def _settle(self):
        clock = SystemClock()
        end = clock.monotonic() + READY_S
        admin = BrokerTransactionAdmin(self.servers, {})
        reason = None
        try:
            while clock.monotonic() < end:
                try:
                    reason = admin.in_states(["PrepareCommit", "PrepareAbort"])
                    if not reason:
                        return
                except OSError as error:
                    reason = error
                self._pause()
            raise AssertionError(f"transactions do not settle: {reason}")
        finally:
            admin.close()

    def what_readers_wait_for(self, topic):
        """What is open for the coordinator, and per partition: last stable offset, high watermark, and what is open there.

        A producer that is open in a partition and not for the coordinator is a transaction that hangs: nobody will end it.
        """
        admin = BrokerTransactionAdmin(self.servers, {})
        try:
            transactions = admin.in_states(["Ongoing", "PrepareCommit", "PrepareAbort"])
            known = {admin.describe(name).producer_id: name for name in admin.in_states(["Empty", *STATES])}
            states = {name: admin.describe(name) for name in known.values()}
        finally:
            admin.close()
        stable, ends = self._ends(topic, "read_committed"), self._ends(topic, "read_uncommitted")
        partitions = {number: {"stable": stable[number], "end": end} for number, end in ends.items()}
        for number, producer, epoch, begin in self._open_producers(topic, list(ends)):
            told = states.get(known.get(producer))
            partitions[number].setdefault("open", []).append((producer, epoch, begin, known.get(producer), told))
        return {"transactions": transactions, "partitions": partitions}

    def _open_producers(self, topic, partitions):
        """Ask the leader (DescribeProducers): partition, producer id, epoch, and where its transaction begins."""
        body = uvarint(2) + compact_text(topic) + uvarint(len(partitions) + 1)
        body += b"".join(struct.pack(">i", each) for each in partitions) + b"\0\0"
        connection = Connection(("127.0.0.1", self.port), Security())
        answer = connection.request(61, 0, body, flexible=True)
        connection.close()
        answer.int32()
        found = []
        for _ in range(answer.count()):
            answer.compact_text()
            for _ in range(answer.count()):
                number, code, _ = answer.int32(), answer.int16(), answer.compact_text()
                assert not code, f"partition {number}: error {code}"
                for _ in range(answer.count()):
                    producer, epoch = answer.int64(), answer.int32()
                    answer.int32(), answer.int64(), answer.int32()
                    begin = answer.int64()
                    answer.tags()
                    if begin >= 0:
                        found.append((number, producer, epoch, begin))
                answer.tags()
            answer.tags()
        return found

    def _ends(self, topic, isolation):
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "tests", "isolation.level": isolation})
        try:
            partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            return {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60, cached=False)[1]
                for number in partitions
            }
        finally:
            consumer.close()

"""Real servers, started once for all tests of this folder; without them there is one line that says what to install."""

import pytest

from tests.support.ferretdb import FerretServer, ferretdb_program
from tests.support.kafka import KafkaBroker, jars
from tests.support.mariadb import MariaServer, mariadb_programs
from tests.support.postgres import PostgresServer, postgres_binaries
from tests.support.pulsar import PulsarBroker, pulsar_jars
from tests.support.rabbitmq import RabbitProcess, rabbitmq_programs
from tests.support.redis import PASSWORD, RedisProcess, redis_program


@pytest.fixture(scope="session")
def kafka_jars():
    pytest.importorskip("confluent_kafka", reason="install it with: pip install 'funken[kafka]'")
    folder, missing = jars()
    if folder is None:
        pytest.skip(missing)
    return folder


@pytest.fixture(scope="session")
def kafka(kafka_jars, tmp_path_factory):
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), kafka_jars)
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture
def own_kafka(kafka_jars, tmp_path):
    """A broker that the test may kill."""
    broker = KafkaBroker(tmp_path, kafka_jars)
    try:
        yield broker.start()
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def postgres_programs():
    pytest.importorskip("psycopg", reason="install it with: pip install 'funken[postgresql]'")
    folder, missing = postgres_binaries()
    if folder is None:
        pytest.skip(missing)
    return folder


@pytest.fixture(scope="session")
def postgres(postgres_programs):
    server = PostgresServer(postgres_programs)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def own_postgres(postgres_programs):
    """A server that the test may kill."""
    server = PostgresServer(postgres_programs)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def mariadb_server_programs():
    pytest.importorskip("pymysqlreplication", reason="install it with: pip install 'funken[mysql]'")
    programs, missing = mariadb_programs()
    if programs is None:
        pytest.skip(missing)
    return programs


@pytest.fixture(scope="session")
def mariadb(mariadb_server_programs):
    server = MariaServer(mariadb_server_programs)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def own_mariadb(mariadb_server_programs):
    """A server that the test may kill and set up."""
    server = MariaServer(mariadb_server_programs)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def redis_server_program():
    pytest.importorskip("redis", reason="install it with: pip install 'funken[redis]'")
    program, missing = redis_program()
    if program is None:
        pytest.skip(missing)
    return program


@pytest.fixture(scope="session")
def redis_process(redis_server_program, tmp_path_factory):
    server = RedisProcess(redis_server_program, tmp_path_factory.mktemp("redis"))
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def own_redis(redis_server_program, tmp_path):
    """A server with a password that the test may kill."""
    server = RedisProcess(redis_server_program, tmp_path, PASSWORD)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def rabbitmq_server_programs():
    pytest.importorskip("pika", reason="install it with: pip install 'funken[rabbitmq]'")
    programs, missing = rabbitmq_programs()
    if programs is None:
        pytest.skip(missing)
    return programs


@pytest.fixture(scope="session")
def rabbitmq_process(rabbitmq_server_programs, tmp_path_factory):
    server = RabbitProcess(rabbitmq_server_programs, tmp_path_factory.mktemp("rabbitmq"))
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def own_rabbitmq(rabbitmq_server_programs, tmp_path):
    """A server that the test may kill."""
    server = RabbitProcess(rabbitmq_server_programs, tmp_path)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def impatient_rabbitmq(rabbitmq_server_programs, tmp_path):
    """A server that ends a channel which acknowledges nothing for three seconds, instead of half an hour."""
    server = RabbitProcess(rabbitmq_server_programs, tmp_path, channel_tick_interval=500, consumer_timeout=3000)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def mongodb_program():
    pytest.importorskip("pymongo", reason="install it with: pip install 'funken[mongodb]'")
    program, missing = ferretdb_program()
    if program is None:
        pytest.skip(missing)
    return program


@pytest.fixture(scope="session")
def mongodb(mongodb_program, tmp_path_factory):
    server = FerretServer(mongodb_program, tmp_path_factory.mktemp("mongodb"))
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def own_mongodb(mongodb_program, tmp_path):
    """A server that the test may kill."""
    server = FerretServer(mongodb_program, tmp_path)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def pulsar_broker_jars():
    pytest.importorskip("pulsar", reason="install it with: pip install 'funken[pulsar]'")
    folder, missing = pulsar_jars()
    if folder is None:
        pytest.skip(missing)
    return folder


@pytest.fixture(scope="session")
def pulsar_broker(pulsar_broker_jars, tmp_path_factory):
    broker = PulsarBroker(tmp_path_factory.mktemp("pulsar"), pulsar_broker_jars)
    try:
        yield broker.start()
    finally:
        broker.stop()

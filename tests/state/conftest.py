"""What the tests of state share: the same behaviour is asked of every backend."""

import itertools

import pytest

from funken.state.keyed import KeyedStateStore
from funken.state.rocksdb.backend import RocksDBBackend


@pytest.fixture(scope="session")
def one_database(databases):
    """A database that is open anyway: its tables get names that no other test uses."""
    backend = RocksDBBackend(databases, 128, range(128))
    yield backend.database
    backend.close()


@pytest.fixture(params=["hashmap", "rocksdb"])
def backend(request, monkeypatch):
    """Let every store have its state in this backend, unless the test names one."""
    if request.param == "rocksdb":
        database, shared = request.getfixturevalue("one_database"), request.getfixturevalue("databases")
        numbers, init = itertools.count(), KeyedStateStore.__init__

        class InOneDatabase(RocksDBBackend):
            def __init__(self, max_parallelism, key_groups):
                super().__init__(shared, max_parallelism, key_groups)
                self._database = database
                self._prefix = f"{request.node.nodeid}-{next(numbers)}/"

            def table(self, name, kind, namespaced):
                return super().table(self._prefix + name, kind, namespaced)

        def new(store, max_parallelism, key_groups, clock, backend=None):
            init(store, max_parallelism, key_groups, clock, backend or InOneDatabase(max_parallelism, key_groups))

        monkeypatch.setattr(KeyedStateStore, "__init__", new)
    return request.param

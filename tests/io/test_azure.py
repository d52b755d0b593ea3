"""Roots on Azure's storage: which account, container and server they name; renames where there are none."""

import pytest

from funken.io import azure
from funken.io.azure import move, open_azure


@pytest.fixture
def opened(monkeypatch):
    """Open roots with a key; the options that Arrow is given are kept."""
    import pyarrow.fs

    given = {}
    monkeypatch.setenv(azure.KEY, "c2VjcmV0")
    monkeypatch.setattr(pyarrow.fs, "AzureFileSystem", lambda **options: given.update(options))

    def find(root):
        given.clear()
        _, path = open_azure(root)
        return path, dict(given)

    return find


@pytest.mark.parametrize(
    ("root", "path", "account", "blobs", "secure"),
    [
        ("abfs://logs@acme.dfs.core.windows.net/a%20b/c", "logs/a b/c", "acme", ".blob.core.windows.net", True),
        ("abfss://logs@acme.dfs.core.windows.net", "logs", "acme", ".blob.core.windows.net", True),
        ("abfs://acme.blob.core.windows.net/logs/a", "logs/a", "acme", ".blob.core.windows.net", True),
        ("abfs://acme@127.0.0.1:10000/logs/a?enable_tls=false", "logs/a", "acme", "127.0.0.1:10000", False),
    ],
)
def test_a_root_names_account_container_and_server(opened, root, path, account, blobs, secure):
    found, options = opened(root)
    assert (found, options["account_name"], options["account_key"]) == (path, account, "c2VjcmV0")
    assert options["blob_storage_authority"] == blobs
    assert options["dfs_storage_authority"] == blobs.replace(".blob.", ".dfs.")
    assert options.get("blob_storage_scheme") == (None if secure else "http")


def test_without_a_key_it_is_left_to_arrow(monkeypatch):
    monkeypatch.delenv(azure.KEY, raising=False)
    assert open_azure("abfs://logs@acme.dfs.core.windows.net/a") is None


class Flat:
    """A store that cannot rename."""

    def __init__(self, **files):
        self.files = files

    def move(self, source, target):
        raise NotImplementedError

    def copy_file(self, source, target):
        self.files[target] = self.files[source]

    def delete_file(self, path):
        del self.files[path]


def test_what_cannot_be_renamed_is_copied_and_deleted():
    store = Flat(a=b"1", b=b"2")
    move(store, "a", "b")
    assert store.files == {"b": b"1"}

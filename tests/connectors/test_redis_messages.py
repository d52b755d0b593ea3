"""Entries of Redis streams as records, without a server."""

import pytest

from funken.connectors.redis import message_of
from funken.errors import SourceNotReadable


def test_an_entry_that_is_no_text_is_named_with_its_stream_and_field():
    entry = b"7-1", {b"ok": b"tea", b"bad": b"\xff\xfe"}
    with pytest.raises(SourceNotReadable, match=r"entry 7-1 of the stream 'orders' has a field b'bad' .*encoding=None"):
        message_of("orders", entry, "utf-8")
    assert message_of("orders", entry, None).fields == entry[1]
    assert message_of("orders", entry, "latin-1").fields == {"ok": "tea", "bad": "ÿþ"}

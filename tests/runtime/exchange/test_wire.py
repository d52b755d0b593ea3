"""Blocks as bytes."""

import importlib
import pickle
import random
import sys
import threading
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.columnar.block import TupleBlock
from funken.errors import RecordNotPicklable, TransferCorrupted
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.io.shapes import dumps_records, record_repr
from funken.runtime import messages as sealed
from funken.runtime.exchange.gate import (
    BlockKind,
    decode_records,
    encode_fields,
    encode_records,
    pack_header,
    read_header,
)

NUMBERS = st.integers(MIN_TIMESTAMP, MAX_WATERMARK)


@given(
    st.sampled_from(BlockKind), st.integers(0, 65535), st.integers(0, 65535), st.integers(0, 65535), st.integers(0, 1 << 40),
    NUMBERS, st.floats(0, 1e10),
)  # fmt: skip
def test_a_header_survives(kind, edge, upstream, target, sequence, number, born):
    head = read_header(pack_header(kind, edge, upstream, target, sequence, number, born, b"whatever follows"))

    assert head == (kind, edge, upstream, target, sequence % (1 << 32), number, born)


RECORDS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=8,
)


@given(st.lists(RECORDS, max_size=10), st.data())
def test_records_and_timestamps_survive(values, data):
    stamps = data.draw(st.none() | st.lists(NUMBERS, min_size=len(values), max_size=len(values)))
    block = pack_header(BlockKind.DATA, 1, 2, 3, 4, 0, 0.5, encode_records(values, stamps, "op", 0))

    assert decode_records(block).rows() == (values, stamps)


class Point(NamedTuple):
    """A record that travels field by field."""

    x: int
    y: int


WIDE = {
    "in order": lambda rng, n: n // 100,
    "near": lambda rng, n: rng.randrange(200),
    "any": lambda rng, n: rng.getrandbits(63),
}
FORMS = {"rows": lambda n: n, "named tuples": lambda n: Point(n, -n), "texts": str}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("times", WIDE)
@pytest.mark.parametrize("arrow", [True, False])
def test_many_timestamps_are_packed_where_there_is_arrow(form, times, arrow, monkeypatch):
    rng = random.Random(7)
    values = [FORMS[form](n) for n in range(1000)]
    stamps = [WIDE[times](rng, n) for n in range(1000)]
    if arrow:
        importlib.import_module("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    bare = len(encode_records(values, None, "op", 0))
    payload = encode_records(values, stamps, "op", 0)
    monkeypatch.undo()

    assert decode_records(pack_header(BlockKind.DATA, 1, 2, 3, 4, 0, 0.5, payload)).rows() == (values, stamps)
    packed = arrow and times != "any"
    assert (len(payload) - bare < 4500) is packed


def test_tuples_by_field_and_their_timestamps_survive():
    importlib.import_module("pyarrow")
    block = TupleBlock([[*range(500)]], [7] * 500, {1: "a"})
    found = decode_records(pack_header(BlockKind.DATA, 1, 2, 3, 4, 0, 0.5, encode_fields(block, "op", 0)))

    assert found.rows() == ([(n, "a") for n in range(500)], [7] * 500)


@given(st.lists(RECORDS, max_size=5), st.sampled_from(BlockKind), st.data())
def test_a_block_that_is_not_what_was_sent_is_refused(values, kind, data):
    block = bytearray(pack_header(kind, 1, 2, 3, 4, 0, 0.5, encode_records(values, None, "op", 0)))
    at = data.draw(st.integers(0, len(block) - 1))
    changed = bytes(block[:at]) + bytes([block[at] ^ data.draw(st.integers(1, 255))]) + bytes(block[at + 1 :])
    for broken in (changed, bytes(block[:at]), bytes(block) + b"!"):
        with pytest.raises(TransferCorrupted, match=f"a block of {len(broken)} bytes .* was changed on its way"):
            read_header(broken)


@given(RECORDS, st.data())
def test_a_message_that_is_not_what_was_sent_is_refused(message, data):
    sent = sealed.dumps(message)
    assert sealed.loads(sent) == message
    at = data.draw(st.integers(0, len(sent) - 1))
    changed = sent[:at] + bytes([sent[at] ^ data.draw(st.integers(1, 255))]) + sent[at + 1 :]
    for broken in (changed, sent[:at], sent + b"!"):
        with pytest.raises(TransferCorrupted, match=f"a message of {len(broken)} bytes .* was changed on its way"):
            sealed.loads(broken)


def test_instances_of_a_local_class_survive():
    class Local:
        def __init__(self, value):
            self.value = value

    block = pack_header(BlockKind.DATA, 0, 0, 0, 0, 0, 0.0, encode_records([Local(3)], None, "op", 0))

    (found,), _ = decode_records(block).rows()
    assert type(found) is Local
    assert found.value == 3
    assert pickle.loads(dumps_records([Local(4)], "op", 0))[0].value == 4


@pytest.mark.parametrize(
    "encode", [lambda values: encode_records(values, None, "op", 3), lambda v: dumps_records(v, "op", 3)]
)
def test_the_record_that_cannot_travel_is_named(encode):
    with pytest.raises(RecordNotPicklable) as caught:
        encode([1, {"lock": threading.Lock()}, 2])

    assert "operator 'op' (subtask 3) emitted a record of type 'dict'" in str(caught.value)
    assert "The record: {'lock': <unlocked" in str(caught.value)
    assert (caught.value.operator, caught.value.subtask) == ("op", 3)


class Shy:
    def __repr__(self):
        raise ValueError("no")


def test_a_record_is_shown_whatever_its_repr_does():
    assert record_repr(Shy()) == "<Shy whose __repr__ raises ValueError>"
    assert record_repr("a") == "'a'"
    assert len(record_repr("a" * 1000)) == 200
    assert record_repr("a" * 1000).endswith("...")

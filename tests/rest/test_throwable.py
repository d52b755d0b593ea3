"""Errors as Java reads them: by a reader of Java's serialization, as far as these streams need one."""

import base64
import struct

import pytest

from funken.rest.throwable import serialized_throwable


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        found = struct.unpack_from(f">{form}", self.data, self.at)
        self.at += struct.calcsize(f">{form}")
        return found[0]

    def text(self, size):
        raw, self.at = self.data[self.at : self.at + size], self.at + size
        units = raw.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")

    def string(self):
        kind = self.take("B")
        if kind == 0x70:
            return None
        return self.text(self.take({0x74: "H", 0x7C: "Q"}[kind]))

    def classes(self):
        while self.take("B") == 0x72:
            name, version, flags = self.text(self.take("H")), self.take("q"), self.take("B")
            fields = []
            for _ in range(self.take("H")):
                kind = chr(self.take("B"))
                field = self.text(self.take("H"))
                assert self.string().startswith(kind)
                fields.append(field)
            assert self.take("B") == 0x78
            yield name, version, flags, fields


@pytest.mark.parametrize("trace", ["Traceback\n  boom", "€ \U0001f600 \0", "x" * 70_000])
def test_a_throwable_has_all_that_java_needs(trace):
    reader = Reader(base64.b64decode(serialized_throwable("ValueError", "no price", trace)))

    assert (reader.take("I"), reader.take("B")) == (0xACED0005, 0x73)
    classes = list(reader.classes())
    assert [name for name, *_ in classes] == [
        "org.apache.flink.util.SerializedThrowable",
        "java.lang.Exception",
        "java.lang.Throwable",
    ]
    cause, message, stack, suppressed = (reader.string() for _ in range(4))
    assert (cause, message, stack, suppressed, reader.take("B")) == (None, "no price", None, None, 0x78)
    assert [reader.string() for _ in range(3)] == [trace, "ValueError", None]
    assert reader.at == len(reader.data)

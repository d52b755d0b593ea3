"""An error as Flink's Java clients read one: a ``SerializedThrowable`` in Java's serialization, in Base64.

Without it Flink's command line does not learn that an operation has failed, and asks for ever.
"""

from __future__ import annotations

import base64
import struct

_OBJECT, _CLASS, _STRING, _LONG_STRING, _END, _NULL = b"\x73", b"\x72", b"\x74", b"\x7c", b"\x78", b"\x70"
_PLAIN, _WITH_METHOD = 2, 3
_LONGEST = 65_535


def serialized_throwable(name: str, message: str, trace: str) -> str:
    """Return an error with the name of its class, its message and its traceback.

    >>> base64.b64decode(serialized_throwable("ValueError", "no price", "Traceback ..."))[:4].hex()
    'aced0005'
    """
    described = _class(
        "org.apache.flink.util.SerializedThrowable", 7284183123441947635, _PLAIN,
        ("fullStringifiedStackTrace", "Ljava/lang/String;"), ("originalErrorClassName", "Ljava/lang/String;"),
        ("serializedException", "[B"),
    ) + _class("java.lang.Exception", -3387516993124229948, _PLAIN) + _class(
        "java.lang.Throwable", -3042686055658047285, _WITH_METHOD,
        ("cause", "Ljava/lang/Throwable;"), ("detailMessage", "Ljava/lang/String;"),
        ("stackTrace", "[Ljava/lang/StackTraceElement;"), ("suppressedExceptions", "Ljava/util/List;"),
    )  # fmt: skip
    throwable = _NULL + _string(message) + _NULL + _NULL + _END
    own = _string(trace) + _string(name) + _NULL
    return base64.b64encode(b"\xac\xed\x00\x05" + _OBJECT + described + _NULL + throwable + own).decode("ascii")


def _class(name: str, version: int, flags: int, *fields: tuple[str, str]) -> bytes:
    """Return the description of a class but for its superclass, which follows."""
    parts = b"".join(kind[:1].encode() + _text(field) + _string(kind) for field, kind in fields)
    return _CLASS + _text(name) + struct.pack(">qBH", version, flags, len(fields)) + parts + _END


def _string(text: str) -> bytes:
    content = _modified(text)
    if len(content) > _LONGEST:
        return _LONG_STRING + struct.pack(">Q", len(content)) + content
    return _STRING + struct.pack(">H", len(content)) + content


def _text(text: str) -> bytes:
    content = _modified(text)
    return struct.pack(">H", len(content)) + content


def _modified(text: str) -> bytes:
    """Return a text in Java's UTF-8: each of two surrogates by itself, and no byte is 0."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = struct.unpack(f">{len(units) // 2}H", units)
    return b"".join(chr(code).encode("utf-8", "surrogatepass") if code else b"\xc0\x80" for code in codes)

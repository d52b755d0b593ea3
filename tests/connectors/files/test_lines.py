import io
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from funken.connectors.files import line_files as lines
from funken.connectors.files.line_files import BadBytes, Charset, RangeLines, StreamLines, newline_is_a_byte

# Everything that some function somewhere takes for the end of a line, and characters of all lengths.
TEXT = st.text(st.sampled_from("ab\n\n\r\x0b\x0c\x1c\x85\u2028\u2029ä€😀\ufeff"), max_size=60)


def expected(text):
    """Lines as the module defines them, in the plainest way."""
    found = text.replace("\r\n", "\n").split("\n")
    return found if found[-1] else found[:-1]


def drain(reader):
    found = []
    while chunk := reader.next():
        found += chunk
    return found


@pytest.fixture(autouse=True, params=[1, 7, 1 << 18], scope="module")
def chunk_size(request):
    original, lines.CHUNK = lines.CHUNK, request.param
    yield
    lines.CHUNK = original


@given(TEXT, st.integers(1, 20))
@example("ab\ncd", 3)
@example("\n\n\n", 1)
@example("a\r\nb\r\n", 2)
def test_neighbouring_ranges_share_a_file_without_loss(text, size):
    data = text.encode()
    ranges = [(start, min(start + size, len(data))) for start in range(0, len(data), size)]

    found = [drain(RangeLines(io.BytesIO(data), *borders, None, Charset())) for borders in ranges]

    assert [line for each in found for line in each] == expected(text)


@given(TEXT, st.sampled_from(["UTF-8", "utf-8-sig", "UTF-16", "utf-16-be", "utf-32", "gb18030", "utf-7"]))
def test_a_stream_is_decoded_in_any_charset(text, charset):
    data = text.encode(charset)

    plain = data.decode(charset)  # a leading U+FEFF may be taken for a byte order mark
    assert drain(StreamLines(io.BytesIO(data), 0, Charset(charset))) == expected(plain)


@given(TEXT, st.integers(0, 30), st.integers(0, 30), st.data())
def test_a_range_goes_on_from_any_position(text, start, length, data):
    raw = text.encode()
    borders = (min(start, len(raw)), min(start + length, len(raw)))
    whole = drain(RangeLines(io.BytesIO(raw), *borders, None, Charset()))
    reader = RangeLines(io.BytesIO(raw), *borders, None, Charset())
    before = []
    for _ in range(data.draw(st.integers(0, 4))):
        before += (chunk := reader.next())
        taken = data.draw(st.integers(0, len(chunk)))
        if taken < len(chunk):
            before = before[: len(before) - len(chunk) + taken]
            break
    else:
        taken = len(chunk) if before else 0

    after = drain(RangeLines(io.BytesIO(raw), *borders, pickle.loads(pickle.dumps(reader.position(taken))), Charset()))

    assert before + after == whole


@given(TEXT, st.data())
def test_a_stream_goes_on_from_any_line(text, data):
    raw = text.encode("utf-16")
    total = len(expected(text))
    done = data.draw(st.integers(0, total))
    reader = StreamLines(io.BytesIO(raw), done, Charset("utf-16"))

    assert reader.position(0) == done
    first = reader.next()
    taken = data.draw(st.integers(0, len(first)))
    assert reader.position(taken) == done + taken
    assert (
        drain(StreamLines(io.BytesIO(raw), reader.position(taken), Charset("utf-16"))) == expected(text)[done + taken :]
    )


@pytest.mark.parametrize("reader", [lambda file: RangeLines(file, 0, 99, None, Charset()), None])
def test_bad_bytes_are_located(reader):
    data = b"good\n" * 3 + b"caf\xe9\n" + b"good\n"
    reader = reader or (lambda file: StreamLines(file, 0, Charset()))

    with pytest.raises(BadBytes, match=r"the bytes e9 at offset 18 are not utf-8 \(invalid continuation byte\)"):
        drain(reader(io.BytesIO(data)))


def test_bad_bytes_may_be_replaced():
    data = b"caf\xe9\nth\xe9\n"

    assert drain(RangeLines(io.BytesIO(data), 0, 9, None, Charset("UTF-8", "replace"))) == ["caf\ufffd", "th\ufffd"]
    assert drain(StreamLines(io.BytesIO(data), 0, Charset("UTF-8", "ignore"))) == ["caf", "th"]


@pytest.mark.parametrize("charset", ["ascii", "latin-1", "cp1252", "koi8-r", "iso8859-15", "mac-roman"])
def test_ranges_work_in_charsets_of_one_byte(charset):
    assert newline_is_a_byte(charset)


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-32", "cp500", "shift_jis", "gbk", "big5", "iso2022_jp", "utf-7"])
def test_ranges_are_not_used_where_a_byte_10_may_be_something_else(charset):
    assert not newline_is_a_byte(charset)

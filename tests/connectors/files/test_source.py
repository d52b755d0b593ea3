import bz2
import gzip
import lzma
import os
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.connectors.base import NEED_SPLITS, Boundedness, ConnectorContext
from funken.connectors.files.line_files import StreamFormat
from funken.connectors.files.source import FileSource
from funken.errors import InvalidConfiguration, InvalidProgram, SourceNotReadable

LINES = st.lists(
    st.text(st.sampled_from("abä€\r\u2028"), max_size=6).filter(lambda line: line[-1:] != "\r"), max_size=30
)

# Parallelism, limit of a batch, steps before a crash, parallelism after it.
SCHEDULES = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(0, 30), st.integers(1, 4))


def source(*paths, charset="UTF-8", errors="strict", split_bytes=None, every=None):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(charset, errors), *paths)
    builder = builder.process_static_file_set() if every is None else builder.monitor_continuously(every)
    return (builder if split_bytes is None else builder.set_split_bytes(split_bytes)).build()


@pytest.fixture(scope="session")
def scratch_job(tmp_path_factory, job):
    """Return a file that each example of a property test writes anew, and the job to read it."""
    return tmp_path_factory.mktemp("scratch") / "file.txt", job


def test_a_file_is_read_line_by_line(tmp_path, job):
    path = tmp_path / "in.txt"
    path.write_bytes("a\n\nb\x0bc\u2028d\r\n e \n\nlast".encode())
    run = job(source(str(path)))

    assert run.run() == ["a", "", "b\x0bc\u2028d", " e ", "", "last"]
    assert len(run.finished) == 1


@pytest.mark.parametrize(
    "spell", [str, os.fspath, lambda path: path, lambda path: path.as_uri(), lambda path: f"file:{path}"]
)
def test_a_path_may_be_spelled_in_many_ways(tmp_path, job, spell):
    path = tmp_path / "with space ä.txt"
    path.write_text("x\n")

    assert job(source(spell(path))).run() == ["x"]


def test_a_relative_path_is_bound_where_the_source_is_declared(tmp_path, job, monkeypatch):
    (tmp_path / "in.txt").write_text("x\n")
    monkeypatch.chdir(tmp_path)
    declared = source("in.txt")
    monkeypatch.chdir("/")

    assert job(declared).run() == ["x"]


def test_a_folder_is_read_in_the_order_of_the_paths_without_hidden_names(tmp_path, job):
    for name in ("b.txt", "a/2.txt", "a/1.txt", "a/b/3.txt", ".hidden", "_success", "_temporary/4.txt", "a/.git/5.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "empty.txt").touch()

    assert job(source(tmp_path)).run() == ["a/1.txt", "a/2.txt", "a/b/3.txt", "b.txt"]


def test_a_hidden_file_is_read_if_it_is_named(tmp_path, job):
    (tmp_path / "_one").write_text("x")

    assert job(source(tmp_path / "_one")).run() == ["x"]


def test_a_file_reached_in_two_ways_is_read_once(tmp_path, job):
    (tmp_path / "in.txt").write_text("x\n")

    assert job(source(tmp_path / "in.txt", tmp_path)).run() == ["x"]


def test_links_are_followed_but_not_in_circles(tmp_path, job):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "in.txt").write_text("x")
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "base")

    assert job(source(tmp_path / "base")).run() == ["x"]


def test_what_is_not_a_file_is_passed_over(tmp_path, job):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "in.txt").write_text("x")

    assert job(source(tmp_path)).run() == ["x"]


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_compressed_files_are_recognised_by_their_suffix(tmp_path, job, suffix, compress):
    text = [f"line {number}" for number in range(50)]
    (tmp_path / f"in.txt{suffix}").write_bytes(compress("\n".join(text).encode()))
    run = job(source(tmp_path, split_bytes=10))
    for _ in range(9):
        run.step()
    run.crash()

    assert run.run() == text


@settings(deadline=None)  # writes files
@given(LINES, st.sampled_from(["", "\n"]), st.integers(1, 40), SCHEDULES)
def test_a_restart_anywhere_reads_the_rest_once(scratch_job, lines, end, size, schedule):
    scratch, job = scratch_job
    text = "\n".join(lines) + end
    scratch.write_bytes(text.encode())
    expected = text.removesuffix("\n").split("\n") if text else []

    assert sorted(job.run_with_crash(source(scratch, split_bytes=size), schedule)) == sorted(expected)


@settings(deadline=None)  # writes files
@given(LINES, st.integers(1, 40), st.integers(1, 5))
def test_one_subtask_reads_in_order_whatever_the_splits(scratch_job, lines, size, limit):
    scratch, job = scratch_job
    scratch.write_bytes("".join(line + "\n" for line in lines).encode("gb18030", "replace"))

    expected = scratch.read_bytes().decode("gb18030").split("\n")[:-1]
    assert job(source(scratch, split_bytes=size, charset="gb18030"), 1, limit).run() == expected


def test_a_large_file_is_shared_by_the_subtasks(tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(b"0123456\n" * (1 << 19))  # 4 MiB
    enumerator = source(path).enumerator(4)
    enumerator.start()

    splits = [enumerator.next_splits(subtask)[0] for subtask in range(4)]

    assert [(split.start, split.end) for split in splits] == [(n << 20, n + 1 << 20) for n in range(4)]
    assert enumerator.next_splits(0) is None


def test_splits_are_handed_out_one_by_one(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(name)
    enumerator = source(tmp_path).enumerator(2)
    enumerator.start()

    assert [[os.path.basename(split.file.path) for split in enumerator.next_splits(0)] for _ in range(3)] == [
        ["a"],
        ["b"],
        ["c"],
    ]
    assert enumerator.next_splits(1) is None


def test_new_and_changed_files_are_discovered(tmp_path, context):
    enumerator = source(tmp_path, every=timedelta(seconds=1)).enumerator(1)
    reader = source(tmp_path).reader(context)

    def read():
        found = []
        while splits := enumerator.next_splits(0):
            reader.add_splits(splits)
            while (got := reader.poll(9, 0)) is not NEED_SPLITS:
                found += got.values
        return found

    def look(now):
        return enumerator.add_discovered(enumerator.discover(now))

    enumerator.start()
    assert enumerator.discovery_interval == 1000
    assert enumerator.next_splits(0) == []

    (tmp_path / "a").write_text("1\n2\n")
    assert look(1000)
    assert read() == ["1", "2"]
    assert not look(2000)

    (tmp_path / "b").write_text("3\n")
    (tmp_path / ".c").write_text("hidden\n")
    assert look(3000)
    restored = source(tmp_path, every=1000).enumerator(1)
    restored.restore(enumerator.snapshot())
    enumerator = restored
    assert read() == ["3"]
    assert not look(4000)

    (tmp_path / "a").write_text("1\n2\n4\n")
    assert look(5000)
    assert read() == ["1", "2", "4"]


def test_what_was_found_and_not_taken_over_is_found_again(tmp_path):
    """A look runs beside the rest: it changes nothing, and a checkpoint in between holds nothing of it."""
    enumerator = source(tmp_path, every=1000).enumerator(1)
    enumerator.start()
    (tmp_path / "a").write_text("1\n")
    found = enumerator.discover(1000)
    restored = source(tmp_path, every=1000).enumerator(1)
    restored.restore(enumerator.snapshot())

    for one in (enumerator, restored):
        assert one.next_splits(0) == []
        assert one.discover(2000) == found
        assert one.add_discovered(found)
        assert [split.file.path for split in one.next_splits(0)] == [str(tmp_path / "a")]
        assert not one.discover(3000)


def test_only_monitoring_makes_it_unbounded(tmp_path):
    assert source(tmp_path).boundedness is Boundedness.BOUNDED
    assert source(tmp_path, every=10).boundedness is Boundedness.CONTINUOUS_UNBOUNDED


@pytest.mark.parametrize("every", [None, 1000])
def test_a_missing_path_fails_at_the_start(tmp_path, every):
    with pytest.raises(SourceNotReadable, match=r"gone' does not exist; create it, or correct the path"):
        source(tmp_path / "gone", every=every).enumerator(1).start()


def test_an_empty_folder_fails_at_the_start(tmp_path):
    (tmp_path / "_hidden").touch()

    with pytest.raises(
        SourceNotReadable, match=r"holds no files \(names that begin.*await them with monitor_continuously"
    ):
        source(tmp_path).enumerator(1).start()


def test_an_unknown_scheme_fails_at_the_start():
    with pytest.raises(SourceNotReadable, match=r"'nosuch://host/path' cannot be listed \(.*nosuch"):
        source("nosuch://host/path").enumerator(1).start()


def test_what_is_neither_file_nor_folder_fails_at_the_start(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(SourceNotReadable, match="neither a regular file nor a folder"):
        source(tmp_path / "pipe").enumerator(1).start()


def test_a_file_that_went_away_is_named(tmp_path, context):
    path = tmp_path / "in.txt"
    path.write_text("x")
    enumerator = source(path).enumerator(1)
    enumerator.start()
    reader = source(path).reader(context)
    reader.add_splits(enumerator.next_splits(0))
    path.unlink()

    with pytest.raises(SourceNotReadable, match=r"^here: .*in.txt cannot be read: .*No such file") as caught:
        reader.poll(9, 0)
    assert (caught.value.operator, caught.value.subtask) == ("here", 1)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [(".gz", b"no gzip"), (".gz", gzip.compress(b"x" * 999)[:-9]), (".bz2", b"no"), (".xz", b"no")],
    ids=["gz", "gz cut short", "bz2", "xz"],
)
def test_a_broken_archive_is_named(tmp_path, job, suffix, content):
    (tmp_path / f"in{suffix}").write_bytes(content)

    with pytest.raises(
        SourceNotReadable, match=rf"in{suffix} cannot be read: .*; is the path there, readable and whole"
    ):
        job(source(tmp_path)).run()


def test_bytes_of_another_charset_are_named_with_the_remedy(tmp_path, job):
    (tmp_path / "in.txt").write_bytes(b"fine\ncaf\xe9\n")
    remedy = r"name its charset, e.g. text_line_format\('ISO-8859-1'\), or let .*errors='replace'"

    with pytest.raises(SourceNotReadable, match=rf"in.txt: the bytes e9 at offset 8 are not utf-8 .*; {remedy}"):
        job(source(tmp_path)).run()

    assert job(source(tmp_path, charset="ISO-8859-1")).run() == ["fine", "café"]
    assert job(source(tmp_path, errors="replace")).run() == ["fine", "caf\ufffd"]


@pytest.mark.parametrize(("charset", "errors"), [("UTF-9", "strict"), ("rot13", "strict"), ("UTF-8", "shrug")])
def test_unknown_charsets_are_refused(charset, errors):
    with pytest.raises(InvalidConfiguration, match=r"UTF-9|rot13|shrug"):
        StreamFormat.text_line_format(charset, errors)


def test_nonsense_is_refused(tmp_path):
    with pytest.raises(InvalidProgram, match="no path"):
        source()
    with pytest.raises(InvalidProgram, match="on another host"):
        source("file://otherhost/path")
    with pytest.raises(InvalidConfiguration, match="every 0 ms"):
        source(tmp_path, every=0)
    with pytest.raises(InvalidConfiguration, match="0 bytes"):
        source(tmp_path, split_bytes=0)


def test_a_reader_closed_in_the_middle_closes_its_file(tmp_path):
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"a\nb\n"))
    enumerator = source(tmp_path).enumerator(1)
    enumerator.start()
    reader = source(tmp_path).reader(ConnectorContext("here", 0, 1))
    reader.add_splits(enumerator.next_splits(0))
    assert reader.poll(1, 0).values == ["a"]

    reader.close()
    reader.close()

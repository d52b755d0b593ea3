import errno
import os
import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.connectors import CommitRequest, CommitterContext, ConnectorContext
from funken.connectors.files.part_files import Encoder, OutputFileConfig, RollingPolicy
from funken.connectors.files.sink import BucketAssigner, FileSink
from funken.errors import InvalidConfiguration, InvalidProgram, SinkNotWritable

HOUR = 3_600_000
BASE = BucketAssigner.base_path_bucket_assigner()


class ByFirstLetter(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"letter={element[0]}"


def sink(base, assigner=BASE, policy=None, **options):
    encoder = Encoder.simple_string_encoder(options.get("charset", "UTF-8"))
    return (
        FileSink.for_row_format(str(base), encoder)
        .with_bucket_assigner(assigner)
        .with_rolling_policy(policy or RollingPolicy.on_checkpoint_rolling_policy())
        .with_output_file_config(options.get("config", OutputFileConfig.builder().build()))
        .with_bucket_check_interval(options.get("check_interval", 60_000))
        .build()
    )


def commit(sink, committables):
    sink.committer(CommitterContext("out")).commit([CommitRequest(each) for each in committables])


def abort(sink, committables):
    sink.committer(CommitterContext("out")).abort([CommitRequest(each) for each in committables])


def writer(of, subtask=0):
    made = of.writer(ConnectorContext("out", subtask, 2))
    made.open()
    return made


def visible(base):
    """Return the content of all files that a reader would see, by folder."""
    found = {}
    for folder, _, names in os.walk(base):
        shown = [name for name in names if not name.startswith(".")]
        for name in sorted(shown, key=lambda name: int(name.rsplit("-", 1)[1])):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found.setdefault(os.path.relpath(folder, base), []).append(file.read())
    return found


def hidden(base):
    return [name for _, _, names in os.walk(base) for name in names if name.startswith(".")]


def test_a_file_becomes_visible_when_it_is_committed(tmp_path):
    out = sink(tmp_path)
    one = writer(out)

    one.write(["a", ("b", 2), None], None, 0)
    one.write([True], None, 1)
    assert visible(tmp_path) == {}

    pending = one.prepare_commit(1, end_of_input=False)
    assert visible(tmp_path) == {}

    commit(out, pickle.loads(pickle.dumps(pending)))
    assert visible(tmp_path) == {".": ["a\n('b', 2)\nNone\nTrue\n"]}
    assert hidden(tmp_path) == []


def test_names_are_those_of_flink(tmp_path):
    config = OutputFileConfig.builder().with_part_prefix("clicks").with_part_suffix(".txt").build()
    out = sink(tmp_path, config=config)
    one = writer(out)
    uuid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

    one.write(["a"], None, 0)
    assert re.fullmatch(rf"\.clicks-{uuid}-0\.inprogress\.{uuid}", *hidden(tmp_path))

    commit(out, one.prepare_commit(1, False))
    assert re.fullmatch(rf"clicks-{uuid}-0\.txt", *os.listdir(tmp_path))


def test_by_default_there_is_a_folder_per_hour(tmp_path):
    out = FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).build()
    one = writer(out)
    for now in (0, HOUR - 1, HOUR):
        one.write([now], None, now)
    commit(out, one.prepare_commit(1, True))

    assert sorted(visible(tmp_path).values()) == [["0\n3599999\n"], ["3600000\n"]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d--\d\d", name) for name in os.listdir(tmp_path))


def test_an_assigner_of_the_user_is_asked_for_each_record(tmp_path):
    out = sink(tmp_path, ByFirstLetter())
    one = writer(out)
    one.write(["apple", "beet", "avocado"], None, 0)
    one.write(["bean"], None, 0)
    commit(out, one.prepare_commit(1, True))

    assert visible(tmp_path) == {"letter=a": ["apple\navocado\n"], "letter=b": ["beet\nbean\n"]}


def test_an_assigner_may_look_at_the_timestamp(tmp_path):
    class ByTimestamp(BucketAssigner):
        def get_bucket_id(self, element, context):
            return f"{context.timestamp()}/{context.current_processing_time()}"

    out = sink(tmp_path, ByTimestamp())
    one = writer(out)
    one.write(["a", "b"], [5, 6], 9)
    commit(out, one.prepare_commit(1, True))

    assert visible(tmp_path) == {"5/9": ["a\n"], "6/9": ["b\n"]}


def test_a_bucket_outside_the_base_path_is_refused(tmp_path):
    class Escaping(BucketAssigner):
        def get_bucket_id(self, element, context):
            return "x/../../elsewhere"

    with pytest.raises(SinkNotWritable, match="leads out of the base path"):
        writer(sink(tmp_path, Escaping())).write(["a"], None, 0)


def test_nothing_written_leaves_nothing(tmp_path):
    out = sink(tmp_path / "base")
    out.check()
    one = writer(out)
    one.write([], None, 0)

    assert one.prepare_commit(1, True) == []
    one.close()
    assert os.listdir(tmp_path) == []


def test_each_checkpoint_has_its_files(tmp_path):
    out = sink(tmp_path)
    one = writer(out)
    one.write(["a"], None, 0)
    first = one.prepare_commit(1, False)
    one.write(["b"], None, 0)
    commit(out, first)
    assert visible(tmp_path) == {".": ["a\n"]}

    assert len(hidden(tmp_path)) == 1
    commit(out, one.prepare_commit(1, True))
    assert visible(tmp_path) == {".": ["a\n", "b\n"]}


def test_committing_twice_is_harmless(tmp_path):
    out = sink(tmp_path)
    one = writer(out)
    one.write(["a"], None, 0)
    pending = one.prepare_commit(1, True)
    commit(out, pending)
    commit(out, pending)
    abort(out, pending)

    assert visible(tmp_path) == {".": ["a\n"]}


def test_a_pending_file_that_vanished_is_an_error(tmp_path):
    out = sink(tmp_path)
    one = writer(out)
    one.write(["a"], None, 0)
    pending = one.prepare_commit(1, True)
    os.remove(pending[0].hidden)

    with pytest.raises(SinkNotWritable, match="No such file"):
        commit(out, pending)


def test_closing_removes_what_was_not_prepared_and_keeps_the_rest(tmp_path):
    out = sink(tmp_path, policy=RollingPolicy.default_rolling_policy(part_size=4))
    one = writer(out)
    one.write(["prepared"], None, 0)
    pending = one.prepare_commit(1, False)
    one.write(["rolled"], None, 0)
    one.write(["x"], None, 0)
    assert len(hidden(tmp_path)) == 3

    one.close()
    one.close()
    assert len(hidden(tmp_path)) == 1
    commit(out, pending)
    assert visible(tmp_path) == {".": ["prepared\n"]}


def test_aborting_removes_what_was_prepared(tmp_path):
    out = sink(tmp_path)
    one = writer(out)
    one.write(["a"], None, 0)
    pending = one.prepare_commit(1, False)
    abort(out, pending)
    abort(out, pending)

    assert os.listdir(tmp_path) == []


def test_two_attempts_of_one_subtask_do_not_meet(tmp_path):
    out = sink(tmp_path)
    failed, again = writer(out), writer(out)
    failed.write(["half"], None, 0)
    again.write(["whole"], None, 0)
    failed.close()
    commit(out, again.prepare_commit(1, True))

    assert visible(tmp_path) == {".": ["whole\n"]}


def test_a_file_is_closed_at_its_size(tmp_path):
    out = sink(tmp_path, policy=RollingPolicy.default_rolling_policy(part_size=4))
    one = writer(out)
    for value in ["a", "b", "c", "long enough", "d"]:
        one.write([value], None, 0)
    commit(out, one.prepare_commit(1, True))

    assert visible(tmp_path) == {".": ["a\nb\n", "c\nlong enough\n", "d\n"]}


@pytest.mark.parametrize(
    ("policy", "files"),
    [
        (RollingPolicy.default_rolling_policy(rollover_interval=100, inactivity_interval=10**9), 2),
        (RollingPolicy.default_rolling_policy(rollover_interval=10**9, inactivity_interval=100), 1),
        (RollingPolicy.on_checkpoint_rolling_policy(), 1),
    ],
)
def test_a_file_is_closed_at_its_age(tmp_path, policy, files):
    out = sink(tmp_path, policy=policy, check_interval=10)
    one = writer(out)
    for now in (0, 60, 120, 180):
        one.write([now], None, now)

    pending = one.prepare_commit(1, True)

    assert len(pending) == files


def test_a_file_nobody_writes_to_is_closed(tmp_path):
    policy = RollingPolicy.default_rolling_policy(rollover_interval=10**9, inactivity_interval=100)
    one = writer(sink(tmp_path, ByFirstLetter(), policy, check_interval=10))
    one.write(["a", "b"], None, 0)
    one.write(["a"], None, 60)
    one.write(["a"], None, 120)

    assert list(one._parts) == ["letter=a"]
    one.close()


def test_ages_are_looked_at_only_so_often(tmp_path):
    policy = RollingPolicy.default_rolling_policy(rollover_interval=100)
    one = writer(sink(tmp_path, policy=policy, check_interval=1000))
    one.write(["a"], None, 0)
    one.write(["a"], None, 999)
    assert one._parts
    one.write(["a"], None, 1000)
    assert not one._parts
    one.close()


@settings(deadline=None)  # writes files
@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])))), st.integers(1, 50), st.integers(0, 9))
def test_whatever_is_written_and_committed_is_read_back(tmp_path_factory, blocks, size, checkpoint):
    base = tmp_path_factory.mktemp("out")
    out = sink(base, policy=RollingPolicy.default_rolling_policy(part_size=size))
    one = writer(out)
    for number, block in enumerate(blocks):
        one.write(block, None, 0)
        if number == checkpoint:
            commit(out, one.prepare_commit(1, False))
    commit(out, one.prepare_commit(1, True))

    order = sorted(os.listdir(base), key=lambda name: int(name.rsplit("-", 1)[1]))
    written = b"".join((base / name).read_bytes() for name in order)
    assert written.decode() == "".join(f"{value}\n" for block in blocks for value in block)


@pytest.mark.parametrize("charset", ["UTF-16", "utf-8-sig", "utf-32", "latin-1"])
def test_a_byte_order_mark_stands_once_at_the_beginning(tmp_path, charset):
    out = sink(tmp_path, charset=charset)
    one = writer(out)
    one.write(["ä"], None, 0)
    one.write(["b"], None, 0)
    commit(out, one.prepare_commit(1, True))

    (name,) = os.listdir(tmp_path)
    assert (tmp_path / name).read_bytes().decode(charset) == "ä\nb\n"


def test_an_encoder_of_the_user_gets_blocks(tmp_path):
    class Csv(Encoder):
        def header(self):
            return b"key,count\n"

        def encode(self, values):
            return b"".join(b"%s,%d\n" % (key.encode(), count) for key, count in values)

    out = FileSink.for_row_format(tmp_path, Csv()).with_bucket_assigner(BASE).build()
    one = writer(out)
    one.write([("a", 1)], None, 0)
    one.write([("b", 2)], None, 0)
    commit(out, one.prepare_commit(1, True))

    assert visible(tmp_path) == {".": ["key,count\na,1\nb,2\n"]}


def test_a_character_without_place_in_the_charset_is_named(tmp_path):
    one = writer(sink(tmp_path, charset="ascii"))

    with pytest.raises(SinkNotWritable, match=r"^out: 'é' has no place in ascii .*choose another charset") as caught:
        one.write(["caf\xe9"], None, 0)
    assert (caught.value.operator, caught.value.subtask) == ("out", 0)
    one.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_file_in_the_place_of_the_base_path_is_noticed_beforehand(tmp_path):
    (tmp_path / "file").touch()
    for base in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SinkNotWritable, match=rf"cannot write {base} \(.*Not a directory.*; free the path"):
            sink(base).check()


def test_a_folder_that_may_not_be_written_is_noticed_beforehand(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), dir)

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)

    with pytest.raises(SinkNotWritable, match=rf"cannot write {tmp_path}/a/b \(.*Permission denied: '{tmp_path}'\)"):
        sink(tmp_path / "a" / "b").check()


def test_an_obstacle_in_the_task_names_the_operator(tmp_path):
    (tmp_path / "letter=a").touch()

    with pytest.raises(SinkNotWritable, match=r"^out: cannot write .*letter=a") as caught:
        writer(sink(tmp_path, ByFirstLetter())).write(["a"], None, 0)
    assert caught.value.operator == "out"


def test_a_full_disk_is_named_and_nothing_is_left(tmp_path, monkeypatch):
    class Full:
        def __init__(self, path):
            open(path, "xb").close()

        def write(self, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("funken.io.filesystem.Files.create", lambda self, path: Full(path))
    one = writer(sink(tmp_path))

    with pytest.raises(SinkNotWritable, match="No space left"):
        one.write(["a"], None, 0)
    one.close()
    assert os.listdir(tmp_path) == []


def test_flush_hands_the_bytes_to_the_system(tmp_path):
    one = writer(sink(tmp_path))
    one.write(["a"], None, 0)
    one.flush(end_of_input=False)

    assert (tmp_path / hidden(tmp_path)[0]).read_bytes() == b"a\n"
    one.close()


def test_nonsense_is_refused(tmp_path):
    with pytest.raises(InvalidConfiguration, match="unknown encoding: UTF-9"):
        Encoder.simple_string_encoder("UTF-9")
    with pytest.raises(InvalidConfiguration, match="use a bucket assigner"):
        OutputFileConfig.builder().with_part_prefix("a/b").build()
    with pytest.raises(InvalidProgram, match="on another host"):
        FileSink.for_row_format("file://otherhost/out", Encoder.simple_string_encoder())

"""The manifest: all there is of a checkpoint survives writing and reading, and nothing else is taken for one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.checkpoint.store import completed as module
from funken.checkpoint.store.blobs import Blob, GroupSegment, RedistributeMode, StateItem, SubtaskHandle
from funken.checkpoint.store.completed import Manifest, OperatorEntry, SnapshotKind
from funken.errors import CheckpointCorrupted, CheckpointIncompatible

numbers = st.integers(0, 2**40)
names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)


def blob(length, data, groups, items, name, sha256):
    """A blob whose segments are within it."""

    def place(offset, size):
        return offset % (length + 1), size % (length + 1 - offset % (length + 1))

    return Blob(
        name=f"shared/{name}",
        length=length if data is None else len(data),
        sha256=sha256,
        groups=() if data else tuple(GroupSegment(group, *place(*at), crc) for group, at, crc in groups),
        items=() if data else tuple(StateItem(*item, *place(*at), crc) for item, at, crc in items),
        data=data or None,
    )


places = st.tuples(numbers, numbers)
blobs = st.builds(
    blob,
    name=names,
    length=numbers,
    sha256=names,
    groups=st.lists(st.tuples(st.integers(0, 127), places, numbers), max_size=3),
    items=st.lists(
        st.tuples(st.tuples(names, st.sampled_from(RedistributeMode), numbers), places, numbers), max_size=2
    ),
    data=st.none() | st.binary(max_size=10, min_size=1),
)
handles = st.builds(
    SubtaskHandle,
    parts=st.lists(blobs, max_size=2).map(tuple),
    own=st.none() | blobs,
    states=st.dictionaries(names, st.just({"kind": "value", "ttl": None}), max_size=2),
    committables=st.binary(max_size=10),
    finished=st.booleans(),
)
operators = st.lists(handles, min_size=1, max_size=3).flatmap(
    lambda subtasks: st.builds(
        OperatorEntry,
        names,
        names,
        st.just(len(subtasks)),
        numbers.map(lambda n: n + 128),
        st.booleans(),
        st.just(tuple(subtasks)),
    )
)
manifests = st.builds(
    Manifest,
    job_id=names,
    job_name=st.text(),
    checkpoint=numbers,
    kind=st.sampled_from(SnapshotKind),
    time=numbers,
    operators=st.lists(operators, max_size=2, unique_by=lambda operator: operator.id).map(tuple),
    enumerators=st.dictionaries(names, st.binary(max_size=10), max_size=2),
)


@pytest.fixture
def written():
    blob = Blob("shared/1-a", 9, "00", (GroupSegment(7, 5, 4, 1),))
    inline = Blob("", 2, "00", (), (), b"ab")
    handle = SubtaskHandle((blob,), inline, {"n": {"kind": "value", "ttl": 5}}, b"files")
    operator = OperatorEntry("count", "count", 1, 128, True, (handle,))
    return Manifest("job", "Job", 1, SnapshotKind.CHECKPOINT, 1000, (operator,), {"source": b"splits"})


@given(manifests)
def test_a_manifest_is_read_as_it_was_written(manifest):
    assert Manifest.from_bytes(manifest.to_bytes(), "here") == manifest


@given(manifests, st.data())
def test_a_truncated_manifest_is_refused(manifest, data):
    content = manifest.to_bytes()
    snapshot = data.draw(st.integers(0, len(content) - 2))
    with pytest.raises(CheckpointCorrupted, match="here"):
        Manifest.from_bytes(content[:snapshot], "here")


@given(manifests, st.data())
def test_a_changed_manifest_is_refused(manifest, data):
    content = bytearray(manifest.to_bytes())
    at = data.draw(st.integers(0, len(content) - 2))
    content[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CheckpointCorrupted):
        Manifest.from_bytes(bytes(content), "here")


@pytest.mark.parametrize("version", [0, 3, 9, 10**30, None, "1", 1.0, True, [1]])
def test_a_manifest_whose_version_was_changed_is_corrupted_and_not_of_a_newer_funken(written, version):
    outer = json.loads(written.to_bytes()) | {"version": version}
    with pytest.raises(CheckpointCorrupted, match="here is damaged: its version"):
        Manifest.from_bytes(json.dumps(outer).encode(), "here")


def test_a_manifest_of_a_newer_version_is_refused(written):
    outer = json.loads(written.to_bytes()) | {"version": 3}
    outer["body"]["version"] = 3
    with pytest.raises(CheckpointIncompatible, match=r"newer version of Funken \(format 3"):
        Manifest.from_bytes(json.dumps(outer | {"sha256": "of another kind"}).encode(), "here")
    outer["sha256"] = module._digest(module._text(outer["body"]))
    with pytest.raises(CheckpointIncompatible, match=r"newer version of Funken \(format 3, .* up to 2\)"):
        Manifest.from_bytes(json.dumps(outer).encode(), "here")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{}", b'{"format": "parquet"}', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000,
        b'{"format": NaN}', b'{"format": "funken-checkpoint"}', b"null", b"\x80\x05N.",
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(content):
    with pytest.raises(CheckpointCorrupted, match="here is .*(manifest|damaged)"):
        Manifest.from_bytes(content, "here")


def rewritten(manifest, change):
    """The manifest as someone else might write it, checksum and all."""
    body = json.loads(module._text(manifest.body()))
    change(body)
    outer = {"format": module.FORMAT, "version": 1, "sha256": module._digest(module._text(body)), "body": body}
    return json.dumps(outer).encode()


def test_a_manifest_that_lacks_something_is_refused(written):
    with pytest.raises(CheckpointCorrupted, match=r"here is malformed: Object missing required field `job_id`"):
        Manifest.from_bytes(rewritten(written, lambda body: body.pop("job_id")), "here")
    with pytest.raises(CheckpointCorrupted, match="has 1 of 2 subtasks"):
        Manifest.from_bytes(rewritten(written, lambda body: body["operators"][0].update(parallelism=2)), "here")


WRONG = {
    "null": None, "float": 1.5, "text": "x", "number": 7, "negative": -1, "huge": 10**400, "list": [[]], "object": {"a": 1},
    "true": True, "infinite": float("inf"), "digits": "12", "deep": [[[[[[[[[[]]]]]]]]]],
}  # fmt: skip


def paths_of(value, path=()):
    """Every place within a JSON value."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths_of(inner, (*path, key))


@pytest.mark.parametrize("wrong", WRONG)
def test_a_field_of_another_type_is_right_or_named_in_the_error(written, wrong):
    """At every place of a manifest, and its checksum fits: a manifest results, or an error that says what is wrong."""
    places = [path for path in paths_of(json.loads(written.to_bytes())["body"]) if path]
    refused = 0
    for path in places:

        def change(body, path=path):
            for key in path[:-1]:
                body = body[key]
            body[path[-1]] = WRONG[wrong]

        try:
            read = Manifest.from_bytes(rewritten(written, change), "here")
        except CheckpointCorrupted as error:
            refused += 1
            assert "here " in str(error) and len(str(error)) < 400
        else:
            assert Manifest.from_bytes(read.to_bytes(), "here") == read
    assert refused > len(places) // 4


@pytest.mark.parametrize(
    ("path", "value", "fact"),
    [
        (("operators",), {}, r"Expected `array`, got `object` - at `\$.operators`"),
        (("operators", 0), 5, r"Expected `object`, got `int` - at `\$.operators\[0\]`"),
        (("time",), 1e3, r"Expected `int`, got `float` - at `\$.time`"),
        (("checkpoint",), 10**4000, "the checkpoint: a number is below 0, or beyond 64 bits"),
        (("kind",), "backup", r"Invalid enum value 'backup' - at `\$.kind`"),
        (("enumerators", "source"), "%%", r"Invalid base64 encoded string - at `\$.enumerators"),
        (("operators", 0, "subtasks", 0, "states", "n", "kind"), "tree", "state 'n' has no type"),
        (("operators", 0, "subtasks", 0, "parts", 0, "groups", 0), [7, 5, 400, 1], "'shared/1-a': a segment ends at 405 of 9"),
        (("operators", 0, "subtasks", 0, "parts", 0, "groups", 0), [128, 5, 4, 1], "beyond the maximum parallelism, 128"),
        (("operators", 0, "subtasks", 0, "own", "data"), "AAAA", "the content of a blob has 3 bytes instead of 2"),
    ],
)  # fmt: skip
def test_an_error_names_the_field_and_what_is_wrong_with_it(written, path, value, fact):
    def change(body):
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = value

    with pytest.raises(CheckpointCorrupted, match=f"here is malformed: .*{fact}.* Use the checkpoint before it"):
        Manifest.from_bytes(rewritten(written, change), "here")


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/data", "shared/../../x"])
def test_a_name_that_leads_elsewhere_is_refused(written, name):
    def change(body):
        body["operators"][0]["subtasks"][0]["parts"][0]["name"] = name

    with pytest.raises(CheckpointCorrupted, match="leads out of"):
        Manifest.from_bytes(rewritten(written, change), "here")


def test_it_knows_its_files_and_its_size(written):
    assert written.files == {"shared/1-a"}
    assert json.loads(written.to_bytes())["body"]["shared"] == ["shared/1-a"]
    assert written.size == 9 + 2 + 5
    assert written.operators[0].stateful
    assert not OperatorEntry("map", "map", 1, 128, False, (SubtaskHandle(finished=True),)).stateful

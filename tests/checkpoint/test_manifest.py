"""The manifest: all there is of a checkpoint survives writing and reading, and nothing else is taken for one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.checkpoint import manifest as module
from funken.checkpoint.events import Kind
from funken.checkpoint.handles import Blob, GroupSegment, Item, Spread, SubtaskHandle
from funken.checkpoint.manifest import Manifest, OperatorEntry
from funken.errors import CheckpointCorrupted, CheckpointIncompatible

numbers = st.integers(0, 2**40)
names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
blobs = st.builds(
    Blob,
    name=names.map(lambda name: f"shared/{name}"),
    length=numbers,
    sha256=names,
    groups=st.lists(st.builds(GroupSegment, numbers, numbers, numbers, numbers), max_size=3).map(tuple),
    items=st.lists(st.builds(Item, names, st.sampled_from(Spread), numbers, numbers, numbers, numbers), max_size=2).map(
        tuple
    ),
    data=st.none() | st.binary(max_size=10),
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
        OperatorEntry, names, names, st.just(len(subtasks)), numbers, st.booleans(), st.just(tuple(subtasks))
    )
)
manifests = st.builds(
    Manifest,
    job_id=names,
    job_name=st.text(),
    checkpoint=numbers,
    kind=st.sampled_from(Kind),
    time=numbers,
    operators=st.lists(operators, max_size=2).map(tuple),
    enumerators=st.dictionaries(names, st.binary(max_size=10), max_size=2),
)


@pytest.fixture
def written():
    blob = Blob("shared/1-a", 9, "00", (GroupSegment(7, 5, 4, 1),))
    inline = Blob("", 2, "00", (), (), b"ab")
    handle = SubtaskHandle((blob,), inline, {"n": {"kind": "value", "ttl": 5}}, b"files")
    operator = OperatorEntry("count", "count", 1, 128, True, (handle,))
    return Manifest("job", "Job", 1, Kind.CHECKPOINT, 1000, (operator,), {"source": b"splits"})


@given(manifests)
def test_a_manifest_is_read_as_it_was_written(manifest):
    assert Manifest.from_bytes(manifest.to_bytes(), "here") == manifest


@given(manifests, st.data())
def test_a_truncated_manifest_is_refused(manifest, data):
    content = manifest.to_bytes()
    cut = data.draw(st.integers(0, len(content) - 2))
    with pytest.raises(CheckpointCorrupted, match="here"):
        Manifest.from_bytes(content[:cut], "here")


@given(manifests, st.data())
def test_a_changed_manifest_is_refused(manifest, data):
    content = bytearray(manifest.to_bytes())
    at = data.draw(st.integers(0, len(content) - 2))
    content[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises((CheckpointCorrupted, CheckpointIncompatible)):
        Manifest.from_bytes(bytes(content), "here")


def test_a_manifest_of_a_newer_version_is_refused(written):
    outer = json.loads(written.to_bytes()) | {"version": 3}
    with pytest.raises(CheckpointIncompatible, match=r"newer version of Funken \(format 3, .* up to 2\)"):
        Manifest.from_bytes(json.dumps(outer).encode(), "here")


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format": "parquet"}', b"\xff\xfe"])
def test_what_is_no_manifest_is_refused(content):
    with pytest.raises(CheckpointCorrupted, match="manifest"):
        Manifest.from_bytes(content, "here")


def rewritten(manifest, change):
    """The manifest as someone else might write it, checksum and all."""
    body = manifest._to_json()
    change(body)
    outer = {"format": module.FORMAT, "version": 1, "sha256": module._digest(module._text(body)), "body": body}
    return json.dumps(outer).encode()


def test_a_manifest_that_lacks_something_is_refused(written):
    with pytest.raises(CheckpointCorrupted, match=r"lacks something.*'job_id'"):
        Manifest.from_bytes(rewritten(written, lambda body: body.pop("job_id")), "here")
    with pytest.raises(CheckpointCorrupted, match="has 1 of 2 subtasks"):
        Manifest.from_bytes(rewritten(written, lambda body: body["operators"][0].update(parallelism=2)), "here")


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

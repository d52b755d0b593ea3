"""Archives go into their folder and nowhere else, with or without the filter of ``tarfile``."""

import io
import os
import stat
import tarfile
import zipfile

import pytest

from funken.compat.pyflink.dependencies import Dependencies, checked_target, unpack
from funken.errors import InvalidProgram


def tar(*members, compression=""):
    """A tar archive of ``(name, payload_of or type, link)``."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=f"w:{compression}") as archive:
        for name, what, *link in members:
            member = tarfile.TarInfo(name)
            if isinstance(what, str):
                member.size = len(what)
                archive.addfile(member, io.BytesIO(what.encode()))
            else:
                member.type, member.linkname = what, link[0] if link else ""
                archive.addfile(member)
    return stream.getvalue()


@pytest.mark.parametrize("compression", ["", "gz", "bz2", "xz"])
def test_files_folders_and_links_within_are_unpacked(tmp_path, compression):
    content = tar(
        ("bin", tarfile.DIRTYPE),
        ("lib/data.txt", "2"),
        ("lib/same.txt", tarfile.SYMTYPE, "data.txt"),
        ("bin/up.txt", tarfile.SYMTYPE, "../lib/data.txt"),
        ("copy.txt", tarfile.LNKTYPE, "lib/data.txt"),
        compression=compression,
    )
    unpack(content, tmp_path / "to", "data.tar")
    for name in ("lib/data.txt", "lib/same.txt", "bin/up.txt", "copy.txt"):
        assert (tmp_path / "to" / name).read_text() == "2"


def test_what_could_be_run_can_be_run_and_nothing_more(tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, mode in (("run", 0o4777), ("read", 0o666)):
            member = tarfile.TarInfo(name)
            member.mode = mode
            archive.addfile(member, io.BytesIO())
    unpack(stream.getvalue(), tmp_path / "to", "data.tar")
    assert stat.S_IMODE(os.stat(tmp_path / "to/run").st_mode) == 0o755
    assert not stat.S_IMODE(os.stat(tmp_path / "to/read").st_mode) & 0o111


@pytest.mark.parametrize(
    ("members", "fact"),
    [
        ([("../x", "1")], r"'\.\./x' leads out"),
        ([("/tmp/x", "1")], "'/tmp/x' leads out"),
        ([("a/../../x", "1")], "leads out"),
        ([("a", tarfile.SYMTYPE, "/etc/passwd")], "is a link that leads out"),
        ([("a", tarfile.SYMTYPE, "..")], "is a link that leads out"),
        ([("a", tarfile.SYMTYPE, "../to/../x")], "is a link that leads out"),
        ([("d/e/s", tarfile.SYMTYPE, "../.."), ("y", tarfile.SYMTYPE, "d/e/s/..")], "is a link that leads out"),
        ([("y", tarfile.SYMTYPE, "d/e/s/.."), ("d/e/s", tarfile.SYMTYPE, "../..")], "is a link that leads out"),
        ([("y", tarfile.SYMTYPE, "d/e/s/.."), ("d/e/s", tarfile.SYMTYPE, "../.."), ("y/x", "1")], "lies behind a link"),
        ([("a", tarfile.LNKTYPE, "../secret")], "is a link that leads out"),
        ([("a", tarfile.CHRTYPE)], "neither a file"),
        ([("a", tarfile.BLKTYPE)], "neither a file"),
        ([("a", tarfile.FIFOTYPE)], "neither a file"),
    ],
)
def test_a_tar_archive_that_leaves_its_folder_is_refused(tmp_path, members, fact):
    (tmp_path / "secret").write_text("s")
    with pytest.raises(InvalidProgram, match=rf"'data\.tar' is refused: .*{fact}"):
        unpack(tar(("fine", "1"), *members), tmp_path / "to", "data.tar")
    assert sorted(os.listdir(tmp_path)) == ["secret", "to"]
    assert (tmp_path / "secret").read_text() == "s"


def test_a_file_takes_the_place_of_a_link_and_is_not_written_through_it(tmp_path):
    content = tar(("kept", "old"), ("a", tarfile.SYMTYPE, "kept"), ("a", "new"))
    unpack(content, tmp_path / "to", "data.tar")
    assert (tmp_path / "to/kept").read_text() == "old" and (tmp_path / "to/a").read_text() == "new"


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/../../x", "..\\x"])
def test_a_zip_archive_that_leaves_its_folder_is_refused(tmp_path, name):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, "1")
    with pytest.raises(InvalidProgram, match="leads out of the archive"):
        unpack(stream.getvalue(), tmp_path / "to", "data.zip")
    assert os.listdir(tmp_path) == ["to"]


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", tar(("a", "1" * 2000), compression="gz")[:-30]],
    ids=["empty", "text", "truncated"],
)
def test_what_is_no_archive_is_refused(tmp_path, content):
    with pytest.raises(InvalidProgram, match="neither a zip nor a tar archive"):
        unpack(content, tmp_path / "to", "data.tar")


@pytest.mark.parametrize("target", ["/data", "../data", "a/../../b", ".", "./", "a\\..\\b"])
def test_a_target_outside_of_the_working_folder_is_refused(tmp_path, target):
    (tmp_path / "data.tar").write_bytes(tar(("a", "1")))
    with pytest.raises(InvalidProgram, match=r"add_python_archive\(\): the target .* is not within"):
        Dependencies().add_archive(str(tmp_path / "data.tar"), target)
    assert checked_target("a/b") == "a/b"

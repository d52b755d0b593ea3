"""Temporary folders of processes that were killed are removed by the next run; those of processes that live are not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from funken.io import temporary

MAKE = "from funken.io.temporary import make_temporary_folder as make; print(make('query'), flush=True); input()"


def test_the_folder_of_a_killed_process_is_swept_and_no_other(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", MAKE], stdin=-1, stdout=-1, text=True, env=environment)
        for _ in range(2)
    ]
    try:
        killed, living = (Path(each.stdout.readline().strip()) for each in processes)
        (killed / "offsets").write_text("much")
        stranger = tmp_path / "funken-notes-of-the-user"
        stranger.mkdir()
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        now = killed.stat().st_mtime

        soon = temporary.sweep(str(tmp_path), now + 1)
        later = temporary.sweep(str(tmp_path), now + 3600)

        assert (soon, later) == ([], [str(killed)])
        assert (killed.exists(), living.is_dir(), stranger.is_dir()) == (False, True, True)
    finally:
        for each in processes:
            each.kill()
            each.communicate()


def test_a_folder_goes_with_its_block(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary.tempfile, "tempdir", str(tmp_path))

    with temporary.temporary_folder("query") as folder:
        assert temporary.sweep(str(tmp_path), os.stat(folder).st_mtime + 3600) == []

    assert list(tmp_path.iterdir()) == []

"""Crashes as planned."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def kill_once(folder):
    """Kill this process if there is a file ``kill-*`` in the folder, and take that away before."""
    for marker in sorted(Path(folder).glob("kill-*"))[:1]:
        marker.unlink()
        os.kill(os.getpid(), signal.SIGKILL)

"""How much of a file is read at a time."""

import pytest

from funken.connectors.files import csv_files, line_files
from funken.connectors.files import line_files as lines


@pytest.fixture(params=[1 << 20, 300, 40], ids=["large", "some", "small"])
def pieces(request, monkeypatch):
    """How much is read at a time."""
    monkeypatch.setattr(line_files, "COLUMN_CHUNK", request.param)
    monkeypatch.setattr(lines, "COLUMN_CHUNK", request.param)
    monkeypatch.setattr(csv_files, "COLUMN_CHUNK", request.param)
    monkeypatch.setattr(line_files, "CHUNK", request.param)
    monkeypatch.setattr(lines, "CHUNK", request.param)

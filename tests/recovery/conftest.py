"""Whole jobs that fail, stop and go on take a second each: without Spark they belong to the tier of the simulation."""

from pathlib import Path

import pytest

WHOLE_JOBS = (
    "test_backends",
    "test_full_disks",
    "test_own_connectors",
    "test_recovery",
    "test_savepoints",
    "test_signals",
)


def pytest_collection_modifyitems(items):
    for item in items:
        here = item.path.parent == Path(__file__).parent  # pytest shows every conftest the tests of all folders
        if here and item.path.stem in WHOLE_JOBS and item.get_closest_marker("spark") is None:
            item.add_marker(pytest.mark.simulation)


@pytest.fixture
def folder(tmp_path):
    """Where a job and its checkpoints have their files."""
    return tmp_path

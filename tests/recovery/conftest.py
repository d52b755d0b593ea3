"""Whole jobs that fail, stop and go on take a second each: without Spark they belong to the tier of the simulation."""

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
        if item.path.stem in WHOLE_JOBS and item.get_closest_marker("spark") is None:
            item.add_marker(pytest.mark.simulation)


@pytest.fixture
def folder(tmp_path):
    """Where a job and its checkpoints have their files."""
    return tmp_path

"""Blocks of a few records go on columns."""

import pytest

from funken.operators.columnar import path as watch


@pytest.fixture(autouse=True)
def blocks_may_be_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FEW", 0)

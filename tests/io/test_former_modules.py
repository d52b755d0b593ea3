"""Classes whose modules were merged: state that names their modules of before is read."""

import importlib
import io
import pickle
from pathlib import Path

import pytest

from funken.io.former_modules import module_now
from funken.io.shapes import load_state, load_stream
from funken.state.descriptors import StateTtlConfig

_FORMER = (Path(__file__).parent / "former_classes.txt").read_text(encoding="utf-8").splitlines()
"""By line a module of today, and the classes in it by their names of before."""


@pytest.mark.parametrize("line", _FORMER)
def test_a_class_is_found_by_its_module_of_before(line):
    today, _, names = line.partition(": ")
    for name in names.split():
        module, _, own = f"funken.{name}".rpartition(".")
        assert module_now(module, own) == f"funken.{today}"
        assert hasattr(importlib.import_module(f"funken.{today}"), own)


def test_a_module_of_today_stays():
    assert module_now("funken.state.keyed", "_Value") == "funken.state.keyed"


@pytest.mark.parametrize("name", ["NoSuchClass", "_Value", "_same"])
def test_what_is_not_clear_is_not_guessed(name):
    assert module_now("funken.state.converting", name) == "funken.state.converting"


@pytest.mark.parametrize("protocol", [2, 5])
def test_state_that_names_a_module_of_before_is_read(protocol):
    unit = StateTtlConfig.UpdateType.OnReadAndWrite
    data = pickle.dumps(unit, protocol)
    assert b"funken.state.descriptors" in data
    before = b"funken.state.ttl_config"
    data = data.replace(b"funken.state.descriptors", before)
    if protocol == 5:
        data = data.replace(b"\x8c\x18" + before, b"\x8c\x17" + before)
        data = data[:3] + (len(data) - 11).to_bytes(8, "little") + data[11:] if data[2:3] == b"\x95" else data
    assert load_state(data) is unit
    assert load_stream(io.BytesIO(data)) is unit

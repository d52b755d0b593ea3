"""Classes of modules that were merged: state that names their modules of before is read."""

import importlib
import importlib.util
import io
import pickle

import pytest

from funken.io.former_modules import FORMER_MODULES
from funken.io.shapes import load_state, load_stream
from funken.state.descriptors import StateTtlConfig


@pytest.mark.parametrize("module", sorted(set(FORMER_MODULES.values())))
def test_a_module_of_today_is_there(module):
    assert importlib.util.find_spec(module)


@pytest.mark.parametrize("module", sorted(FORMER_MODULES))
def test_a_module_of_before_is_gone(module):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(module)


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

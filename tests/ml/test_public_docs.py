"""What ``funken.ml`` exports is documented and shown, by the rules of the public surface."""

import pytest

import funken.ml
from tests.test_public_docs import faults

SURFACE = {name: getattr(funken.ml, name) for name in funken.ml.__all__}
EXPORTED = [thing for _, thing in sorted(SURFACE.items()) if isinstance(thing, type)]


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_a_public_name_is_shown_by_examples(name):
    assert faults(SURFACE[name], EXPORTED) == []

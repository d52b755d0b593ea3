"""What ``funken.graph`` exports is documented and shown, by the rules of the public surface."""

import pytest

import funken.graph
from tests.test_public_docs import faults

SURFACE = {name: getattr(funken.graph, name) for name in funken.graph.__all__}
EXPORTED = [thing for _, thing in sorted(SURFACE.items()) if isinstance(thing, type)]


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_a_public_name_is_shown_by_examples(name):
    assert set(faults(SURFACE[name], EXPORTED)) <= {"Graph.from_spark is shown by no example that runs"}  # needs Spark

"""What ``funken.ml`` exports has a docstring with an example that runs; its methods are those of scikit-learn."""

import pytest

import funken.ml
from tests.test_public_docs import faults_of_docstring

SURFACE = {name: getattr(funken.ml, name) for name in funken.ml.__all__}


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_a_public_name_is_shown_by_examples(name):
    assert list(faults_of_docstring(SURFACE[name].__doc__)) == []

"""What ``funken.ml`` exports has a docstring with an example that runs; its methods are those of scikit-learn."""

from pkgutil import iter_modules

import pytest

import funken.ml
from tests.test_public_docs import faults_of_docstring

MODULES = {module.name for module in iter_modules(funken.ml.__path__)}
SURFACE = {name: getattr(funken.ml, name) for name in funken.ml.__all__ if name not in MODULES}


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_a_public_name_is_shown_by_examples(name):
    assert list(faults_of_docstring(SURFACE[name].__doc__)) == []

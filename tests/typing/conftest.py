"""The stubs of pyflink, made once for all tests of types."""

import pytest
from click.testing import CliRunner

from funken.cli.main import main


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    """Return the folder of the stubs of pyflink."""
    folder = tmp_path_factory.mktemp("types") / "typings"
    assert CliRunner().invoke(main, ["stubs", str(folder)]).exit_code == 0
    return folder

"""The lists that say which tier a test belongs to are true."""

from pathlib import Path

from tests.support.tiers import SLOW, TESTS


def test_a_slow_module_exists():
    assert {name for name in SLOW if not (TESTS / name).is_file()} == set()


def test_the_simulation_finds_all_that_has_its_mark():
    """The Makefile gives pytest the modules that name the mark, and the folder whose conftest.py gives it."""
    makefile = Path(TESTS.parent, "Makefile").read_text()
    given = {
        path.relative_to(TESTS).as_posix() for path in TESTS.rglob("conftest.py") if "simulation)" in path.read_text()
    }

    assert "grep -rl --include='test_*.py' mark.simulation tests) tests/recovery" in makefile
    assert given == {"recovery/conftest.py"}

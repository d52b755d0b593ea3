"""Pages that repeat what the code says: they say the same."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = runpy.run_path(str(ROOT / "scripts" / "gen_reference.py"))["PAGES"]


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_up_to_date(name):
    page = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")

    assert page == GENERATED[name](), "run python scripts/gen_reference.py"


def test_the_guide_lists_the_settings_of_a_session():
    session = pytest.importorskip("funken.spark.session")
    guide = (ROOT / "docs" / "guide" / "running.md").read_text(encoding="utf-8")

    listed = [line.strip() for line in guide.splitlines() if line.strip().startswith(".config(")]

    assert listed == [f'.config("{key}", "{value}")' for key, value in session.STATIC.items()]


def test_the_readme_shows_the_first_example():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert f"```python\n{(ROOT / 'examples' / 'wordcount.py').read_text(encoding='utf-8')}```\n" in readme

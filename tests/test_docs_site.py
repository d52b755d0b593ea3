"""The site is built without a warning, so every link and anchor leads somewhere, and it loads nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.docs_docstrings import fenced

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"?(https?:[^\s\">]+)")


@pytest.mark.spark  # it starts none, but takes as long; the fast tests check the links of Markdown
@pytest.mark.timeout(400)
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")}
    assert {found for page in pages.values() for found in LOADED.findall(page)} == set()
    assert "KeyedProcessFunction" in pages["reference/api/datastream.html"]
    assert "def stop_and_resume" in re.sub(r"<[^>]*>", "", pages["examples/turnstiles/job.py.html"])
    assert "watermark" in (tmp_path / "search" / "search_index.json").read_text()


def test_the_examples_of_a_docstring_are_fenced():
    docstring = "Add.\n\n>>> 1 + 1\n2\n>>> for n in []:\n...     n\n\nThen ``this``:\n\n>>> 2\n2"

    assert fenced(docstring) == (
        "Add.\n\n```pycon\n>>> 1 + 1\n2\n>>> for n in []:\n...     n\n```\n\nThen ``this``:\n\n```pycon\n>>> 2\n2\n```\n"
    )

"""Fragments of the changelog: each has a kind, and together they are a section."""

from pathlib import Path

import pytest

from scripts.changelog import fragments, released, section, with_unreleased

ROOT = Path(__file__).parents[1]


def write(folder, **texts):
    for name, text in texts.items():
        (folder / (name.replace("__", ".") + ".md")).write_text(text)
    return folder


def test_every_fragment_of_the_repository_has_a_kind_and_a_text():
    found = [path for paths in fragments(ROOT / "changelog.d").values() for path in paths]

    assert [path.name for path in found if not path.read_text().strip()] == []
    assert section(ROOT / "changelog.d").count("\n* ") == len(found)


def test_fragments_are_grouped_by_kind(tmp_path):
    folder = write(tmp_path, b__added="Two\nlines.\n", a__added="One.", hole__security="Closed.", README="Not one.")

    assert section(folder) == "### Security\n\n* Closed.\n\n### Added\n\n* One.\n* Two lines.\n"


def test_a_fragment_of_no_kind_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"thing.new.md: a fragment is named <slug>.<kind>.md; kinds are added, changed"
    ):
        fragments(write(tmp_path, thing__new="What?"))


def test_a_release_puts_them_under_its_version(tmp_path):
    folder = write(tmp_path, a__added="One.")
    before = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n"

    assert with_unreleased(before, folder).endswith(
        "## [Unreleased]\n\n### Added\n\n* One.\n\n## [0.1.0] - 2026-01-01\n"
    )
    assert released(before, folder, "0.2.0", "2026-02-01") == (
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-02-01\n\n### Added\n\n* One.\n\n## [0.1.0] - 2026-01-01\n"
    )

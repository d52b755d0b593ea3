"""The changelog from its fragments: what is not released yet, or a release.

python scripts/changelog.py                        print what is not released yet
python scripts/changelog.py --release 0.2.0        move it into CHANGELOG.md, and delete the fragments
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = ("security", "removed", "deprecated", "changed", "added", "fixed")
"""What readers of a changelog look for first."""
HEADING = "## [Unreleased]\n"


def fragments(folder: Path) -> dict[str, list[Path]]:
    """Return the fragments of each kind, by name; raises ``ValueError`` for a file of no kind."""
    found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        match = re.fullmatch(r"[a-z0-9-]+\.(\w+)\.md", path.name)
        if match is None or match[1] not in found:
            raise ValueError(
                f"{path.name}: a fragment is named <slug>.<kind>.md; kinds are {', '.join(sorted(KINDS))}."
            )
        found[match[1]].append(path)
    return found


def section(folder: Path) -> str:
    """Return the fragments as a section of Markdown, without its heading."""
    parts = []
    for kind, paths in fragments(folder).items():
        bullets = "\n".join(f"* {' '.join(path.read_text().split())}" for path in paths)
        parts += [f"### {kind.capitalize()}\n\n{bullets}\n"] if paths else []
    return "\n".join(parts)


def with_unreleased(changelog: str, folder: Path) -> str:
    """Return a changelog in which what is not released is spelled out."""
    before, _, after = changelog.partition(HEADING)
    return f"{before}{HEADING}\n{section(folder)}{after}"


def released(changelog: str, folder: Path, version: str, date: str) -> str:
    """Return a changelog with the fragments as the section of a version."""
    before, _, after = changelog.partition(HEADING)
    return f"{before}{HEADING}\n## [{version}] - {date}\n\n{section(folder)}{after}"


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--release", metavar="VERSION", help="write the section of this version, and delete the fragments"
    )
    given = parser.parse_args()
    changelog, folder = ROOT / "CHANGELOG.md", ROOT / "changelog.d"
    if given.release is None:
        print(section(folder))
        return 0
    date = f"{datetime.now(UTC):%Y-%m-%d}"
    changelog.write_text(released(changelog.read_text(), folder, given.release, date))
    for paths in fragments(folder).values():
        for path in paths:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())

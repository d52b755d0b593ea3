"""Lint the prose of the documents: proselint, the terms of this project (``docs/terms.txt``), hard sentences.

Code, tables of figures, addresses and names in backticks are no prose and are blanked, with their line numbers kept.

usage: prose.py [FILE ...]; ends with 1 if it has something to say
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
TERMS = ROOT / "docs" / "terms.txt"

# Typography is Markdown's; a phrase that seems repeated is the end of a line and the begin of the next, as in a list of calls.
DISABLED = ("typography", "lexical_illusions", "misc.phrasal_adjectives", "dates_times.dates.dash_and_from")

_NOT_PROSE = re.compile(
    r"^```.*?^```$|^<!--.*?-->$|^\|.*?$|`[^`\n]+`|\]\([^)\n]*\)|https?://\S+|^    \S.*?$", re.MULTILINE | re.DOTALL
)


def documents() -> list[Path]:
    """Return the pages that are written by hand."""
    pages = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    pages += [page for page in (ROOT / "docs").rglob("*.md") if "reference" not in page.parts]
    pages += (ROOT / "src" / "funken").rglob("*.md")
    return sorted(pages + list((ROOT / "changelog.d").glob("*.md")) + list((ROOT / "examples").rglob("*.md")))


def is_plain(page: Path) -> bool:
    """Return True if the sentences of a page have to be short and plain; the changelog stays as it is."""
    parts = page.relative_to(ROOT).parts
    return parts[0] not in {"changelog.d", "CHANGELOG.md"}


def prose(text: str) -> str:
    """Return a page without what is not prose, line by line as long.

    >>> prose("A `Watermark`, [here](a.md).")
    'A            , [here       .'
    """
    return _NOT_PROSE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def terms() -> list[tuple[re.Pattern[str], str]]:
    """Return the expressions that are not to be used, and what to write in their place."""
    lines = (line.partition("#")[0].strip() for line in TERMS.read_text().splitlines())
    return [
        (re.compile(rf"\b(?:{wrong.strip()})\b", re.IGNORECASE), right.strip())
        for wrong, _, right in (line.partition("->") for line in lines if line)
    ]


def wrong_terms(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the complaint for each wrong term of a page."""
    for number, line in enumerate(prose(text).splitlines(), 1):
        for wrong, right in terms():
            for found in wrong.finditer(line):
                yield number, f"{found[0]!r}: write {right}"


MOST_WORDS = 30
_BLOCKS = re.compile(r"^```.*?^```$|<!--.*?-->|^#.*?$", re.MULTILINE | re.DOTALL)
_LINK_OR_CODE = re.compile(r"\[([^\]]*)\]\([^)]*\)|`[^`\n]*`")
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[*|-]|\d+\.) )|\n(?=\|)|\|")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z*])")
_CAPTION = re.compile(r"Linux x86_64|Commit [0-9a-f]{7}")  # written by a benchmark: machine, versions, commits
_CLAUSE = re.compile(
    r"\bwhat(?:ever)?\b|\b(?:says?|tells?|shows?|decides?|explains?|depends? on) (?:how|whether)\b", re.IGNORECASE
)


def sentences(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield the sentences of a page, cells of tables among them, with the lines of their paragraphs; code is one word.

    >>> list(sentences("# What\n\nCall `a b` now. See [the page](what.md).\n\n* One;\n* two.\n"))
    [(3, 'Call X now.'), (3, 'See the page.'), (5, '* One;'), (6, '* two.')]
    """
    text = _BLOCKS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    begin = 0
    for end in [*(found.span() for found in _PARAGRAPH.finditer(text)), (len(text), len(text))]:
        paragraph = text[begin : end[0]]
        line = text.count("\n", 0, begin) + 1 + (len(paragraph) - len(paragraph.lstrip("\n")))
        begin = end[1]
        plain = _LINK_OR_CODE.sub(lambda found: found[1] if found[1] is not None else "X", paragraph)
        for sentence in _SENTENCE.split(" ".join(plain.split())):
            if sentence:
                yield line, sentence


def hard_sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield long sentences, and clauses in the place of nouns, with their lines."""
    for line, sentence in sentences(text):
        if _CAPTION.match(sentence):
            continue
        words = len(sentence.split())
        if words > MOST_WORDS:
            yield line, f"{words} words, and {MOST_WORDS} are enough: {sentence[:60]!r}..."
        if not sentence.startswith("**What.**") and (clause := _CLAUSE.search(sentence)):
            yield line, f"a clause with {clause[0]!r} in the place of a noun: {sentence[:60]!r}"


_QUESTION = re.compile(r"(?:What|Which|Whether|How|Where|Who|When)\b")


def questions(source: str) -> Iterator[tuple[int, str]]:
    r"""Yield docstrings that begin with a clause: no noun phrase, and no imperative.

    >>> list(questions("class A:\n    'What is read.'\n\n    def f(self):\n        'Return it.'\n"))
    [(2, 'What is read.')]
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if _QUESTION.match(first):
                yield node.body[0].lineno, first


def proselint(pages: list[Path]) -> Iterator[tuple[Path, int, str]]:
    """Yield what proselint says about pages."""
    with tempfile.TemporaryDirectory() as folder:
        names = {}
        for number, page in enumerate(pages):
            copy = Path(folder) / f"{number}.md"
            copy.write_text(prose(page.read_text()))
            names[str(copy)] = page
        done = subprocess.run(
            [sys.executable, "-m", "proselint", "check", "-o", "json", *names],
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        try:
            found = json.loads(done.stdout)
        except ValueError:
            raise SystemExit(f"proselint failed: {done.stderr or done.stdout}") from None
        for path, result in found["result"].items():
            page = names[str(Path(path.removeprefix("file://")))]
            for each in result.get("diagnostics", ()):
                if not each["check_path"].startswith(DISABLED):
                    yield page, each["pos"][0], f"{each['check_path']}: {each['message']}"


def main(arguments: list[str]) -> int:
    """Lint."""
    pages = [Path(each).resolve() for each in arguments] or documents()
    complaints = [(page, line, text) for page in pages for line, text in wrong_terms(page.read_text())]
    complaints += [
        (page, line, text) for page in pages if is_plain(page) for line, text in hard_sentences(page.read_text())
    ]
    complaints += proselint(pages)
    for page, line, text in sorted(complaints):
        print(f"{page.relative_to(ROOT)}:{line}: {text}")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What guide pages promise beyond the code that they run: messages that exist, links that lead somewhere."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for folder in ("docs", "examples", "src/funken") for page in (ROOT / folder).rglob("*.md")),
    ]
)
MESSAGES = re.findall(r"^### `(.*)`$", (ROOT / "docs" / "guide" / "troubleshooting.md").read_text(), re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```+).*?^\1$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@cache
def texts_of_the_package():
    """Every piece of text in the source, one per line; of an f-string, what does not differ."""
    found = []
    for path in (ROOT / "src" / "funken").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(p.value if isinstance(p, ast.Constant) else "\0" for p in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value.replace("{}", "\0").replace("%s", "\0"))
    return "\n".join(found)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_troubleshooting_page_is_in_the_source(message):
    for piece in message.split("..."):
        assert piece.strip() in texts_of_the_package()


def test_the_messages_were_found():
    assert len(MESSAGES) > 20
    assert "nobody has written this message" + "" not in texts_of_the_package()


def slug(heading):
    """Return the anchor of a heading, as hosts of repositories and MkDocs make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain))


@cache
def anchors(path):
    text = re.sub(r"^(```+).*?^\1$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def broken(page):
    for link in LINK.findall(CODE.sub("code", page.read_text())):
        if re.match(r"\w+:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    assert list(broken(page)) == []


def test_every_guide_page_is_linked_from_the_readme_and_on_the_site():
    readme, site = (ROOT / "README.md").read_text(), (ROOT / "mkdocs.yml").read_text()
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "guide").glob("*.md")}

    assert {page for page in pages if f"(docs/{page})" not in readme} == set()
    assert {page for page in pages if f"- {page}" not in site and f": {page}" not in site} == set()


MEASURED = re.compile(r"\b[0-9][0-9.,]* ?(?:ns|us|µs)\b|records? (?:per|a) second|records/s|times as fast|times faster")
SOURCE = re.compile(r"\bmake [a-z]|benchmarks/|decisions/|scripts/")


def unsourced(page):
    """Return the figures of a page that nothing on it says how to measure."""
    text = re.sub(r"^(```+).*?^\1$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [] if SOURCE.search(text) else MEASURED.findall(text)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent.name in ("guide", "internals")], ids=lambda page: page.name
)
def test_what_is_measured_has_a_source(page):
    assert unsourced(page) == []


def test_a_figure_without_a_source_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("It takes 12 ns per record, and 3.5 million records per second pass.\n")
    assert unsourced(page) == ["12 ns", "records per second"]
    page.write_text("It takes 12 ns per record (`make bench-micro`).\n")
    assert unsourced(page) == []


def test_the_figure_of_the_readme_is_on_the_page_of_the_comparison():
    said = re.search(r"([\d.]+) million records per second, (\d+) times PyFlink", (ROOT / "README.md").read_text())
    rows = {}
    for line in (
        (ROOT / "docs" / "guide" / "comparison.md").read_text().split("<!-- measured: throughput -->")[1].splitlines()
    ):
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows.setdefault(name, cells)
    keyed = rows["M records/s (Funken's opaque lambdas / this)"].index("keyed")
    others = [rows[f"PyFlink, {mode} mode"][keyed] for mode in ("process", "thread")]

    assert f"{float(rows['Funken, opaque lambdas'][keyed]):.1f}" == said[1]
    assert min(int(re.search(r"\((\d+) x\)", cell)[1]) for cell in others) == int(said[2])


def test_a_broken_link_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    links = "[a](page.md#with-a-heading) [b](other.md) [c](#none) `[d](no.md)`"
    page.write_text(f"# A page\n\n## With `a` heading\n\n{links}\n```\n[e](no.md)\n```\n")

    assert list(broken(page)) == ["other.md", "#none"]


def test_the_first_page_stays_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120

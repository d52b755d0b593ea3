"""What the site has besides ``docs``: the README as its home, files of the repository that pages link to, and the API reference.

A hook of MkDocs (``mkdocs.yml``). Links of Markdown pages are those of the repository; here they become links of the site. A
linked file that is no page becomes one that shows it.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from changelog import with_unreleased

HOME = "README.md"
PAGES = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "changelog.d/README.md"]
"""Markdown outside of ``docs`` that is part of the site, by its path in the repository."""
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#:]*)(#[^)\s]*)?\)")
CODE = re.compile(r"^(```+).*?^\1$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml", ".yml": "yaml", ".yaml": "yaml"}

# The public surface: a page per part, and the modules whose ``__all__`` it documents.
API = {
    "datastream": ("DataStream programs", "funken"),
    "table": ("Tables and SQL", "funken.table"),
    "table-expression": ("Expressions of tables", "funken.table.expression"),
    "table-expressions": ("Functions in expressions", "funken.table.expressions"),
    "table-udf": ("Functions of your own in tables", "funken.table.udf"),
    "dataframe": ("Frames", "funken.dataframe"),
    "dataset": ("DataSet programs", "funken.dataset"),
    "cep": ("Patterns of events", "funken.cep"),
    "graph": ("Graphs", "funken.graph"),
    "ml": ("Machine learning", "funken.ml"),
    "connectors": ("Sources and sinks of your own", "funken.connectors"),
    "files": ("Files", "funken.connectors.files"),
    "kafka": ("Kafka", "funken.connectors.kafka"),
    "sql": ("Databases", "funken.connectors.sql"),
    "mysql": ("MySQL and MariaDB", "funken.connectors.mysql"),
    "postgresql": ("PostgreSQL", "funken.connectors.postgresql"),
    "delta": ("Delta Lake", "funken.connectors.delta"),
    "iceberg": ("Iceberg", "funken.connectors.iceberg"),
    "elasticsearch": ("Elasticsearch", "funken.connectors.elasticsearch"),
    "kinesis": ("Kinesis", "funken.connectors.kinesis"),
    "mongodb": ("MongoDB", "funken.connectors.mongodb"),
    "pulsar": ("Pulsar", "funken.connectors.pulsar"),
    "redis": ("Redis", "funken.connectors.redis"),
    "rabbitmq": ("RabbitMQ", "funken.connectors.rabbitmq"),
    "http": ("HTTP and WebSockets", "funken.connectors.http"),
    "dataframes": ("Into Spark", "funken.connectors.dataframes"),
    "hadoop": ("Input formats of Hadoop", "funken.connectors.hadoop"),
    "sdk": ("Operators of your own", "funken.sdk"),
    "testing": ("Testing", "funken.testing"),
}


def site_path(path: str) -> str:
    """Return where a file of the repository is on the site.

    >>> site_path("docs/guide/cep.md"), site_path("README.md"), site_path("examples/late.py")
    ('guide/cep.md', 'index.md', 'examples/late.py.md')
    """
    if path == HOME:
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path in PAGES else f"{path}.md"


def repository_path(page: str) -> str:
    """Return where a page of the site is in the repository."""
    return (
        HOME if page == "index.md" else page if page in PAGES or not (ROOT / "docs" / page).exists() else f"docs/{page}"
    )


def targets(text: str, path: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield the links of a Markdown file to files of the repository, with their paths there."""
    for link in LINK.finditer(CODE.sub(lambda code: "x" * len(code[0]), text)):
        if link[2]:
            yield link, posixpath.normpath(posixpath.join(posixpath.dirname(path), link[2]))


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in ``docs``."""
    added = {site_path(path): (ROOT / path).read_text() for path in [HOME, *PAGES]}
    added["CHANGELOG.md"] = with_unreleased(added["CHANGELOG.md"], ROOT / "changelog.d")
    for path in [HOME, *PAGES, *(f"docs/{file.src_uri}" for file in files.documentation_pages())]:
        for _, target in targets((ROOT / path).read_text(), path):
            whole = ROOT / target
            if whole.is_file() and not target.startswith("docs/") and site_path(target) not in added:
                added[site_path(target)] = shown(whole, target)
    added |= {f"reference/api/{name}.md": text for name, text in api_pages()}
    for uri, text in added.items():
        files.append(File.generated(config, uri, content=text, inclusion=InclusionLevel.INCLUDED))
    omitted = ("decisions/0", "changelog.d", "reference/api/", "examples/", "src/", "scripts/", "benchmarks/", "tests/")
    for file in files.documentation_pages():
        if file.src_uri.startswith(omitted):
            file.inclusion = InclusionLevel.NOT_IN_NAV
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links of the repository into links of the site; a link to a folder becomes its text."""
    here = page.file.src_uri
    if here.startswith("reference/api/") or here.endswith((".py.md", ".ipynb.md")):
        return markdown
    path = repository_path(here)
    pieces, end = [], 0
    for link, target in targets(markdown, path):
        pieces.append(markdown[end : link.start()])
        end = link.end()
        text = markdown[link.start(1) : link.end(1)]
        if (ROOT / target).is_dir():
            pieces.append(text.strip("[]("))
        else:
            relative = posixpath.relpath(site_path(target), posixpath.dirname(here) or ".")
            pieces.append(f"{text}{relative}{link[3] or ''})")
    return "".join([*pieces, markdown[end:]])


def shown(file: Path, path: str) -> str:
    """Return a page that shows a file: a notebook as its cells with what they show, any other as it is."""
    if file.suffix != ".ipynb":
        return f"# {path}\n\n`````{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text()}`````\n"
    parts = []
    for cell in json.loads(file.read_text())["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            text = "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
            parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield name and text of each page of the API reference."""
    contents = ["# API reference", "", "Names by the module that exports them; the docstrings are the package's.", ""]
    for name, (title, module) in API.items():
        exported = exported_names(module)
        contents.append(f"* [{title}]({name}.md): `{module}`, {len(exported)} names")
        entries = "\n\n".join(f"::: {module}.{each}" for each in exported)
        yield name, f"# {title}: `{module}`\n\n{entries}\n"
    yield "index", "\n".join(contents) + "\n"


def exported_names(module: str) -> list[str]:
    """Return what is in ``__all__`` of a module, or of the stub of a package."""
    path = ROOT / "src" / Path(*module.split("."))
    places = (path / "__init__.pyi", path / "__init__.py", path.with_suffix(".py"))
    tree = ast.parse(next(place for place in places if place.exists()).read_text())
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return sorted(ast.literal_eval(statement.value))
    raise ValueError(f"{module} has no __all__")

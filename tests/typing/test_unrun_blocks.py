"""Blocks of the pages that are not run (``no-run``) fit the API: mypy checks the names, members and arguments that they use."""

import ast
import subprocess
import sys

from tests.test_docs import PAGES, ROOT, examples

PRELUDE = """\
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False, warn-unused-ignores=False
from typing import Any
from funken import *
from funken.table import TableEnvironment
import funken
"""
ELSEWHERE = {
    "clicks_per_minute": "Any",
    "password": "str",
    "spark": "Any",
    "Sale": "Any",
    "Total": "Any",
    "upsert": "Any",
    "env": "StreamExecutionEnvironment",
    "totals": "DataStream[Any]",
    "events": "DataStream[Any]",
    "tables": "TableEnvironment",
}
"""What blocks use that stands elsewhere on their page, and what it is."""


def whole(code):
    """Return a block as a module: with declarations of what it does not bind itself."""
    bound = {
        node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound |= {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return PRELUDE + "".join(f"{name}: {kind}\n" for name, kind in ELSEWHERE.items() if name not in bound) + code


def blocks():
    for page in PAGES:
        for example in examples(page.read_text()):
            if example.comment.startswith("no-run: "):
                yield f"{page.stem}_{example.line}".replace("-", "_"), example.code


def complaints(folder, found):
    """Return what mypy says about blocks, by their names and lines."""
    files = []
    for name, code in found:
        files.append(folder / f"{name}.py")
        files[-1].write_text(whole(code))
    command = (
        sys.executable,
        "-m",
        "mypy",
        "--cache-dir",
        ROOT / ".mypy_cache" / "typing",
        "--no-error-summary",
        *files,
    )
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert not done.stderr
    own = [line for line in done.stdout.splitlines() if str(folder) in line or not line.startswith("src")]
    return [line.rpartition("/")[2] for line in own if ": note: " not in line]


def test_every_block_that_is_not_run_fits_the_api(tmp_path):
    found = list(blocks())

    assert len(found) >= 5  # or none was found
    assert complaints(tmp_path, found) == []


def test_a_block_that_does_not_fit_is_seen(tmp_path):
    code = (
        "from funken.connectors.kafka import KafkaSauce\n"
        "env.from_source(NumberSequenceSource(1, 2), WatermarkStrategy.no_watermark(), 'n')\n"
        "env.enable_checkpointing(intervall=1000)\n"
        "totals.sink_two(events)\n"
    )

    found = complaints(tmp_path, [("block", code)])

    first = whole(code).count("\n") - 3
    assert [line.split(":")[1] for line in found] == [str(first + number) for number in range(4)]

"""Blocks of the pages fit the API: mypy checks the names, members and arguments that they use, also of blocks that do not run."""

import ast
import os
import subprocess
import sys

from tests.test_docs import PAGES, ROOT, examples

LOOSE = """\
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, disallow-untyped-decorators=False, warn-unused-ignores=False
# mypy: disallow-incomplete-defs=False, disable-error-code=import-untyped
"""
PRELUDE = """\
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
UNTYPED = {
    "checkpoints": "numbers stand for the types of ids",
    "formats": "a lambda finds records of one class",
    "ml": "a named tuple of numbers and a text, by a star",
    "records": "a lambda changes its record",
    "README": "as ml",
}
"""Pages with code that runs and that mypy refuses."""


def whole(code):
    """Return a block as a module: with declarations of what it does not bind itself."""
    bound = {
        node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    bound |= {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return (
        LOOSE + PRELUDE + "".join(f"{name}: {kind}\n" for name, kind in ELSEWHERE.items() if name not in bound) + code
    )


def blocks():
    for page in PAGES:
        for example in examples(page.read_text()):
            name = f"{page.stem}_{example.line}".replace("-", "_")
            if example.comment.startswith("no-run: "):
                yield name, whole(example.code)
            elif page.stem not in UNTYPED:
                yield name, LOOSE + example.code


def complaints(folder, found, stubs=""):
    """Return what mypy says about blocks, by their names and lines."""
    files = []
    for name, code in found:
        files.append(folder / f"{name}.py")
        files[-1].write_text(code)
    command = (
        sys.executable,
        "-m",
        "mypy",
        "--cache-dir",
        ROOT / ".mypy_cache" / "typing",
        "--no-error-summary",
        *files,
    )
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": str(stubs)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert not done.stderr
    own = [line for line in done.stdout.splitlines() if str(folder) in line or not line.startswith("src")]
    return [line.rpartition("/")[2] for line in own if ": note: " not in line]


def test_the_blocks_fit_the_api(tmp_path, stubs):
    found = list(blocks())

    assert len(found) >= 120  # or none was found
    assert complaints(tmp_path, found, stubs) == []


def test_a_block_that_does_not_fit_is_seen(tmp_path):
    code = (
        "from funken.connectors.kafka import KafkaSauce\n"
        "env.from_source(NumberSequenceSource(1, 2), WatermarkStrategy.no_watermark(), 'n')\n"
        "env.enable_checkpointing(intervall=1000)\n"
        "totals.sink_two(events)\n"
    )

    found = complaints(tmp_path, [("block", whole(code))])

    first = whole(code).count("\n") - 3
    assert [line.split(":")[1] for line in found] == [str(first + number) for number in range(4)]

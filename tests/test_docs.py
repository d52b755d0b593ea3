"""Documentation that runs: every ``python`` block of the Markdown pages, and the examples of every docstring.

A block is run as a script of its own, in an empty folder. If the next thing on the page is a ``text`` or ``output``
block, that is what it must print. An HTML comment on the line above a block says what is special about it::

    <!-- no-run: needs a Kafka broker -->      it is not run
    <!-- spark -->                             it starts Spark, and belongs to the second tier
"""

import doctest
import importlib
import multiprocessing
import os
import re
import runpy
import subprocess
import sys
import traceback
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / "README.md", ROOT / "ARCHITECTURE.md"),
    *sorted(page for folder in ("docs", "src/funken") for page in (ROOT / folder).rglob("*.md")),
]
MODULES = sorted((ROOT / "src" / "funken").rglob("*.py"))

FENCED = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*) -->\n)?^(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=fence)$\n?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Example:
    """A ``python`` block; ``printed`` is None where the page does not say what it prints."""

    line: int
    comment: str
    code: str
    printed: str | None


def examples(page: str) -> list[Example]:
    blocks = list(FENCED.finditer(page))
    found = []
    for block, following in zip_longest(blocks, blocks[1:]):
        if block["language"] == "python":
            directly = following is not None and not page[block.end() : following.start()].strip()
            says = directly and following["language"] in {"text", "output"}
            line = page.count("\n", 0, block.start("fence")) + 1
            found.append(Example(line, block["comment"] or "", block["body"], following["body"] if says else None))
    return found


def run(example: Example, folder: Path) -> None:
    script = folder / "example.py"
    script.write_text(example.code)
    code, printed, complaints = (run_as_script if example.comment == "spark" else run_in_fork)(script)
    assert code == 0, complaints
    if example.printed is not None:
        assert printed.strip() == example.printed.strip()


def run_as_script(script: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, script],
        cwd=script.parent,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def run_in_fork(script: Path) -> tuple[int, str, str]:
    """Run a script in a process of its own that has imported Funken already: that is most of the time of a small one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["funken.api.jobs.client", "funken.api.submission", "funken.testing", "funken.runtime.driver.local_runner"]
    )
    process = context.Process(target=become, args=(str(script),))
    process.start()
    process.join(100)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError("the example did not end within 100 s")
    printed, complaints = (script.with_suffix(suffix).read_text() for suffix in (".out", ".err"))
    return process.exitcode or 0, printed, complaints


def become(script: str) -> None:
    """Be the script: its output goes to files beside it."""
    os.chdir(Path(script).parent)
    for suffix, number in ((".out", 1), (".err", 2)):
        os.dup2(os.open(Path(script).with_suffix(suffix), os.O_WRONLY | os.O_CREAT), number)
    sys.argv = [script]
    sys.path.insert(0, str(Path(script).parent))
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - told as the interpreter tells it
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)


def runnable():
    for page in PAGES:
        for example in examples(page.read_text()) if page.exists() else []:
            if not example.comment.startswith("no-run: "):
                marks = [pytest.mark.spark] if example.comment == "spark" else []
                yield pytest.param(example, id=f"{page.relative_to(ROOT)}:{example.line}", marks=marks)


@pytest.mark.parametrize("example", list(runnable()))
def test_example(example, tmp_path):
    run(example, tmp_path)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_docstrings(path):
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


PAGE = """\
Text.
```python
print(1)
```

```text
1
```
Prose.
<!-- no-run: needs a broker -->
```python
connect()
```
Prose between, so the next block is not its output.
<!-- spark -->
```python
start()
```
More prose.
```text
2
```
````markdown
```python
inside another block
```
````
"""


def test_blocks_are_found_with_their_output_and_comment():
    assert examples(PAGE) == [
        Example(2, "", "print(1)\n", "1\n"),
        Example(11, "no-run: needs a broker", "connect()\n", None),
        Example(16, "spark", "start()\n", None),
    ]


@pytest.mark.parametrize("example", [Example(1, "", "print(1)", "2"), Example(1, "", "raise SystemExit(3)", None)])
def test_a_wrong_page_is_noticed(example, tmp_path):
    with pytest.raises(AssertionError):
        run(example, tmp_path)

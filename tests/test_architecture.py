"""The shape of the package, enforced on its source: who may import whom, and how large a module may grow.

Each rule is a function from a module to the facts that break it. ``test_the_package_keeps`` applies the rules to
Funken; ``test_the_rule_sees`` shows each of them a small module that breaks it.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

# Highest first: a module imports from its own line or from a lower one.
LAYERS = (
    {"cli", "web", "lib", "cep", "dataset", "testing", "compat", "__main__"},
    {"spark"},
    {"api"},
    {"runtime"},
    {"checkpoint"},
    {"plan"},
    {"operators", "connectors"},
    {"vector"},
    {"windowing", "state", "timing"},
    {"metrics", "types"},
    {"config", "ids", "errors"},
)
RANK = {name: -depth for depth, layer in enumerate(LAYERS) for name in layer}
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS} | {"clock_gettime", "localtime", "gmtime", "ctime", "strftime"}
LIGHT = sys.stdlib_module_names | {"cloudpickle", "funken"}
KERNELS = {"arithmetic", "codec", "columns", "combining", "decimals", "evaluation", "groups", "keys", "partials"}
KERNELS |= {"patterns", "ropes", "text"}
MAX_LINES, MAX_FOLDERS = 600, 2

# Breaches that are known and accepted, each "rule: module: fact". This set may only shrink.
EXCEPTIONS: set[str] = set()


@dataclass(frozen=True)
class Module:
    name: str  # dotted; a package's __init__ carries the package's name
    source: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @property
    def part(self) -> str:
        """The folder or module right under funken; empty for funken itself."""
        return part_of(self.name)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    def imports(self) -> Iterator[str]:
        """Every imported name, dotted and absolute: ``from a.b import c`` counts as ``a.b.c``."""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)


def part_of(dotted: str) -> str:
    return (dotted + ".").split(".")[1]


def import_arrows(module: Module) -> Iterator[str]:
    if not module.part:
        return  # the public surface re-exports from everywhere
    if module.part not in RANK:
        yield "is in no layer"
        return
    for name in module.imports():
        if name.split(".")[0] == "funken":
            # What is no layer is a name of the public surface, which stands above them all.
            rank = RANK.get(part_of(name), max(RANK.values()))
            if rank > RANK[module.part]:
                yield f"imports {name}"


def pyspark_fence(module: Module) -> Iterator[str]:
    if module.part != "spark":
        yield from (f"imports {name}" for name in module.imports() if name.split(".")[0] in {"pyspark", "py4j"})


def libraries_use_the_public_surface(module: Module) -> Iterator[str]:
    if module.part == "lib":
        for name in module.imports():
            if name.split(".")[0] == "funken" and part_of(name) in RANK.keys() - {"lib"}:
                yield f"imports {name}"


def one_clock(module: Module) -> Iterator[str]:
    if module.name == "funken.timing.clock" or module.part in {"spark", "cli"}:
        return
    yield from (f"imports {name}" for name in module.imports() if name in {f"time.{clock}" for clock in CLOCKS})
    imports = (node for node in module.nodes if isinstance(node, ast.Import))
    names = {alias.asname or alias.name for node in imports for alias in node.names if alias.name == "time"}
    for node in module.nodes:
        match node:  # naming the function is enough: a clock passed on is read as well
            case ast.Attribute(ast.Name(name), clock) if name in names and clock in CLOCKS:
                yield f"uses time.{clock}"


def bare_init(module: Module) -> Iterator[str]:
    for node in module.tree.body if module.is_package else []:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant(str())):
                pass
            case ast.Assign([ast.Name("__all__" | "__version__")]) | ast.AnnAssign(ast.Name("__all__")):
                pass
            case _:
                yield f"has {type(node).__name__} in __init__.py"


def module_size(module: Module) -> Iterator[str]:
    if len(module.source.splitlines()) > MAX_LINES:
        yield f"is longer than {MAX_LINES} lines"


def folder_depth(module: Module) -> Iterator[str]:
    if module.name.count(".") - (not module.is_package) > MAX_FOLDERS:
        yield f"is more than {MAX_FOLDERS} folders deep"


def on_columns(dotted: str) -> bool:
    """Whether a module of Funken loads NumPy: ``vector_*`` of any part, and the kernels."""
    parts = dotted.split(".")[1:]
    return any(part.startswith("vector_") for part in parts) or (
        parts[:1] == ["vector"] and parts[1:2] != [] and parts[1] in KERNELS
    )


def light_workers(module: Module) -> Iterator[str]:
    if module.part in {"runtime", "operators"} and not on_columns(module.name):
        yield from (f"imports {name}" for name in module.imports() if name.split(".")[0] not in LIGHT)


def columns_load_late(module: Module) -> Iterator[str]:
    """A program without columns never loads NumPy: who needs what does imports it inside a function."""
    if on_columns(module.name):
        return
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (
                f"imports {node.module}.{alias.name} at the top"
                for alias in node.names
                if on_columns(f"{node.module}.{alias.name}")
            )


RULES: list[Callable[[Module], Iterator[str]]] = [
    import_arrows,
    pyspark_fence,
    libraries_use_the_public_surface,
    one_clock,
    bare_init,
    module_size,
    folder_depth,
    light_workers,
    columns_load_late,
]


def package() -> list[Module]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        found.append(Module(".".join(parts[:-1] if is_package else parts), path.read_text(), is_package))
    return found


PACKAGE = package()


@cache
def breaches(rule: Callable[[Module], Iterator[str]]) -> set[str]:
    return {f"{rule.__name__}: {module.name}: {fact}" for module in PACKAGE for fact in rule(module)}


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps(rule):
    assert breaches(rule) - EXCEPTIONS == set()


def test_the_package_was_found():
    assert "funken.errors" in {module.name for module in PACKAGE}


def test_an_exception_no_longer_needed_is_removed():
    assert set().union(*map(breaches, RULES)) >= EXCEPTIONS


@pytest.mark.parametrize(
    ("rule", "name", "source", "fact"),
    [
        (import_arrows, "funken.plan.graph", "import funken.api.stream", "imports funken.api.stream"),
        (import_arrows, "funken.plan.graph", "from funken.api import stream", "imports funken.api.stream"),
        (import_arrows, "funken.plan.graph", "from ..api.job import Runner", "imports funken.api.job.Runner"),
        (import_arrows, "funken.plan.graph", "from .. import api", "imports funken.api"),
        (import_arrows, "funken.plan.graph", "def f():\n    import funken.api", "imports funken.api"),
        (import_arrows, "funken.plan.graph", "from funken import DataStream", "imports funken.DataStream"),
        (import_arrows, "funken.config", "import funken.metrics", "imports funken.metrics"),
        (import_arrows, "funken.util", "", "is in no layer"),
        (pyspark_fence, "funken.cli.run", "from pyspark.sql import SparkSession", "imports pyspark.sql.SparkSession"),
        (pyspark_fence, "funken.api.job", "def f():\n    import pyspark", "imports pyspark"),
        (libraries_use_the_public_surface, "funken.lib.cep.nfa", "import funken.state.ttl", "imports funken.state.ttl"),
        (one_clock, "funken.runtime.task", "import time\nat = time.time()", "uses time.time"),
        (one_clock, "funken.runtime.task", "import time as t\nnow = t.monotonic_ns", "uses time.monotonic_ns"),
        (one_clock, "funken.runtime.task", "from time import monotonic as now", "imports time.monotonic"),
        (module_size, "funken.api.stream", "\n" * 601, "is longer than 600 lines"),
        (folder_depth, "funken.lib.cep.nfa.states", "", "is more than 2 folders deep"),
        (light_workers, "funken.operators.window", "import pandas as pd", "imports pandas"),
        (light_workers, "funken.runtime.task", "from pyarrow import fs", "imports pyarrow.fs"),
        (
            columns_load_late,
            "funken.runtime.task",
            "from funken.vector.columns import rows",
            "imports funken.vector.columns.rows at the top",
        ),
    ],
)
def test_the_rule_sees(rule, name, source, fact):
    assert list(rule(Module(name, source))) == [fact]


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (import_arrows, "funken.api.stream", "from funken.plan import nodes\nimport pickle\nfrom .keyed import Keyed"),
        (import_arrows, "funken.lib.cep.pattern", "from funken import DataStream"),
        (pyspark_fence, "funken.spark.session", "from pyspark.sql import SparkSession"),
        (libraries_use_the_public_surface, "funken.lib.cep.nfa", "import funken\nfrom funken.lib.cep import buffer"),
        (one_clock, "funken.runtime.task", "import time\ntime.sleep(1)\nrecord.time.time"),
        (one_clock, "funken.timing.clock", "import time\ntime.time()"),
        (module_size, "funken.api.stream", "\n" * 600),
        (folder_depth, "funken.lib.cep.nfa", ""),
        (light_workers, "funken.runtime.task", "import heapq\nimport cloudpickle\nfrom .inputs import Gate"),
        (light_workers, "funken.operators.vector_window", "import numpy as np"),
        (columns_load_late, "funken.runtime.task", "def f():\n    from funken.vector.columns import rows"),
        (columns_load_late, "funken.plan.vectorize", "from funken.vector.tracing import trace"),
    ],
)
def test_the_rule_allows(rule, name, source):
    assert list(rule(Module(name, source))) == []


def test_an_init_holds_nothing_but_names():
    fine = '"""Doc."""\nfrom funken.errors import FunkenError\n__all__ = ["FunkenError"]'
    logic = "def f(): ...\nversion = 1\nif True:\n    import funken.ids"

    assert list(bare_init(Module("funken", fine, is_package=True))) == []
    assert list(bare_init(Module("funken", logic, is_package=True))) == [
        "has FunctionDef in __init__.py",
        "has Assign in __init__.py",
        "has If in __init__.py",
    ]
    assert list(bare_init(Module("funken.api.stream", logic))) == []

"""The shape of the package, enforced on its source: who may import whom, what a name means, how large things may grow.

Each rule is a function from a module to the facts that break it. ``test_the_package_keeps`` applies the rules to
Funken; ``test_the_rule_sees`` shows each of them a small module that breaks it. What only the package as a whole can
break (circles, names, folders) has tests of its own.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

# Highest first: a module imports from its own line or from a lower one. A room is a folder, or a module right under funken;
# a folder that is not listed belongs to the one it is in.
LAYERS = (
    {"cli", "demo", "testing", "compat", "__main__", "cep", "dataset", "graph", "ml", "sdk"},
    {"dataframe"},
    {"table"},
    {"table.physical"},
    {"table.runtime"},
    {"table.rules"},
    {"table.sql"},
    {"table.connectors", "table.models"},
    {"table.exec_nodes"},
    {"table.logical", "table.constants"},
    {"table.catalog"},
    {"table.config", "table.changelog", "table.values", "table.types", "table.runtime.block"},
    {"spark"},
    {"api", "api.streams"},
    {"api.functions", "api.jobs"},
    {"rest"},
    {"leaderelection", "runtime.driver"},
    {"runtime.task"},
    {"runtime.chain"},
    {"runtime.flow_control"},
    {"runtime.exchange"},
    {"runtime.job"},
    {"runtime"},
    {"checkpoint"},
    {"checkpoint.store"},
    {"plan", "plan.rules"},
    {"operators.stateful"},
    {"operators.columnar"},
    {"operators.async_io", "operators.join", "operators.process"},
    {"operators.window"},
    {"operators", "operators.codegen"},
    {"operators.coordinators"},
    {"connectors.mysql", "connectors.postgresql"},
    {"connectors.dataframes"},
    {
        "connectors.files",
        "connectors.kafka",
        "connectors.sql",
        "connectors.delta",
        "connectors.iceberg",
        "connectors.redis",
        "connectors.rabbitmq",
        "connectors.elasticsearch",
        "connectors.kinesis",
        "connectors.mongodb",
        "connectors.pulsar",
        "connectors.http",
    },
    {"connectors", "connectors.formats", "connectors.reading"},
    {"columnar.vectorized"},
    {"columnar.keyed"},
    {"columnar.kernels"},
    {"columnar"},
    {"windowing"},
    {"timing"},
    {"state", "state.rocksdb"},
    {"table.changelog", "table.types"},
    {"expr.python", "expr.sql"},
    {"config", "io", "metrics", "types"},
    {"expr"},
    {"dataclass", "errors", "extras", "ids", "lazy", "starting"},
)
RANK = {room: -depth for depth, layer in enumerate(LAYERS) for room in layer}
LIBRARIES = {"cep", "graph", "ml"}
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS} | {"clock_gettime", "localtime", "gmtime", "ctime", "strftime"}
LIGHT = sys.stdlib_module_names | {"cloudpickle", "funken"}
MAX_LINES, MAX_LINES_OF_FUNCTION, MAX_FOLDERS = 1000, 60, 2

# Breaches that are known and accepted, each "rule: module: fact". This set may only shrink.
EXCEPTIONS: set[str] = set(
    {
        "import_arrows: funken.state.rocksdb.database: imports funken.timing.clock.SystemClock",
    }
)

# Rooms in which imports for types only may point back: the streams of the API name one another in their signatures.
TYPED_CIRCLES = {"funken.api", "funken.dataset.api", "funken.table"}

# Classes of one name in two modules. The compatibility layer repeats PyFlink's names; this set may only shrink, but for
# public names of pyflink.table that mean something else elsewhere.
SAME_NAMES: set[str] = set(
    {
        "AggregateFunction",
        "Builder",
        "Column",
        "Edge",
        "Event",
        "Expression",
        "Fault",
        "MapView",
        "Node",
        "ResultKind",
        "State",
    }
)


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

    @property
    def room(self) -> str:
        return room_of(self.name)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    def imports(self, types: bool = True) -> Iterator[str]:
        """Every imported name, dotted and absolute: ``from a.b import c`` counts as ``a.b.c``."""
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        skipped = set() if types else {id(node) for node in self.for_types()}
        for node in self.nodes:
            if id(node) in skipped:
                continue
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)

    def for_types(self) -> Iterator[ast.AST]:
        """What is under ``if TYPE_CHECKING:``."""
        for node in self.nodes:
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                for statement in node.body:
                    yield from ast.walk(statement)


def part_of(dotted: str) -> str:
    return (dotted + ".").split(".")[1]


def room_of(dotted: str) -> str:
    """The longest room that a dotted name is in; the part right under funken if there is none."""
    parts = dotted.split(".")[1:]
    rooms = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((room for room in rooms if room in RANK), part_of(dotted))


def import_arrows(module: Module) -> Iterator[str]:
    if not module.part:
        return  # the public surface re-exports from everywhere
    if module.part not in RANK:
        yield "is in no layer"
        return
    for name in module.imports():
        if name.split(".")[0] == "funken":
            # What is no layer is a name of the public surface, which stands above them all.
            rank = RANK.get(room_of(name), max(RANK.values()))
            if rank > RANK[module.room]:
                yield f"imports {name}"


def pyspark_fence(module: Module) -> Iterator[str]:
    if module.part != "spark":
        yield from (f"imports {name}" for name in module.imports() if name.split(".")[0] in {"pyspark", "py4j"})


def libraries_use_the_public_surface(module: Module) -> Iterator[str]:
    if module.part in LIBRARIES:
        for name in module.imports():
            if re.fullmatch(r"funken\.dataset\.[A-Z]\w*", name):
                continue  # the public surface of data sets
            if name.startswith("funken.io.durations."):
                continue  # all that takes a duration takes the same
            if re.fullmatch(r"funken\.types\.callables\.[A-Z]\w*", name):
                continue  # the parameters of generic classes
            if name.split(".")[0] == "funken" and part_of(name) in RANK.keys() - {
                module.part,
                "config",
                "errors",
                "extras",
                "ids",
                "lazy",
                "sdk",
            }:
                yield f"imports {name}"


def one_clock(module: Module) -> Iterator[str]:
    if module.name == "funken.timing.clock" or module.part in {"spark", "cli", "demo"}:
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
            case ast.Assign([ast.Tuple()], ast.Call(ast.Name("public_names"), [ast.Name("__name__")])):
                pass  # the names of the stub beside it
            case ast.Assign([ast.Name("__all__" | "__version__")]) | ast.AnnAssign(ast.Name("__all__" | "__version__")):
                pass
            case _:
                yield f"has {type(node).__name__} in __init__.py"


def stated_purpose(module: Module) -> Iterator[str]:
    if module.is_package and module.part and "ay import" not in (ast.get_docstring(module.tree) or ""):
        yield "does not say in __init__.py what it may import"


def module_size(module: Module) -> Iterator[str]:
    lines = len(module.source.splitlines())
    if lines > MAX_LINES:
        yield f"is longer than {MAX_LINES} lines"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length(node) > MAX_LINES_OF_FUNCTION:
            yield f"{node.name}() is longer than {MAX_LINES_OF_FUNCTION} lines"


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def folder_depth(module: Module) -> Iterator[str]:
    if module.name.count(".") - (not module.is_package) > MAX_FOLDERS:
        yield f"is more than {MAX_FOLDERS} folders deep"


def on_columns(dotted: str) -> bool:
    """Whether a module loads NumPy: the kernels, the logics that work on columns, and the writer of columns."""
    if dotted.startswith(("funken.operators.columnar.", "funken.operators.stateful.")):
        return not dotted.startswith("funken.operators.columnar.specs")
    return dotted.startswith(
        (
            "funken.columnar.kernels.",
            "funken.columnar.keyed.",
            "funken.columnar.vectorized.results",
            "funken.expr.sql.decimals",
            "funken.expr.sql.parts",
            "funken.runtime.exchange.columnar_writer",
            "funken.graph.columns.",
            "funken.table.runtime.",
            "funken.table.physical",
        )
    )


def numpy_fence(module: Module) -> Iterator[str]:
    if not on_columns(module.name) and module.part != "ml":
        yield from (f"imports {name}" for name in module.imports() if name.split(".")[0] == "numpy")


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


def specs_are_opaque(module: Module) -> Iterator[str]:
    """What runs operators knows their traits, not their specs: a spec may be wrapped."""
    if module.part not in {"runtime", "spark"}:
        return
    yield from (f"imports the spec {name}" for name in module.imports() if name in specs())
    for node in module.nodes:
        match node:
            case ast.Call(
                ast.Name("isinstance" | "type" | "getattr" | "hasattr" as asked), [ast.Attribute(attr="spec"), *_]
            ):
                yield f"asks for {asked}() of a spec"
            case ast.Match(ast.Attribute(attr="spec")):
                yield "matches a spec"


def rules_run_on_the_driver(module: Module) -> Iterator[str]:
    if module.part in {"runtime", "spark"} and module.room != "runtime.driver":
        yield from (f"imports {name}" for name in module.imports() if name.startswith("funken.plan.rules"))


RULES: list[Callable[[Module], Iterator[str]]] = [
    import_arrows,
    pyspark_fence,
    libraries_use_the_public_surface,
    one_clock,
    bare_init,
    stated_purpose,
    module_size,
    folder_depth,
    numpy_fence,
    light_workers,
    columns_load_late,
    specs_are_opaque,
    rules_run_on_the_driver,
]


def package() -> list[Module]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        stub = path.with_suffix(".pyi")
        source = path.read_text() + (stub.read_text() if stub.exists() else "")
        found.append(Module(".".join(parts[:-1] if is_package else parts), source, is_package))
    return found


PACKAGE = package()


@cache
def specs() -> set[str]:
    """The specs of operators: dataclasses with a method ``build``."""
    return {
        f"{module.name}.{node.name}"
        for module in PACKAGE
        if module.part == "operators"
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(decorator).startswith("dataclass") for decorator in node.decorator_list)
        and any(isinstance(method, ast.FunctionDef) and method.name == "build" for method in node.body)
    }


def arrows(modules: Iterable[Module], types: bool) -> dict[str, set[str]]:
    """Which module imports which, at the top or late; with ``types`` also for annotations only."""
    names = {module.name for module in modules if not module.is_package}
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        if module.name in names:
            for name in module.imports(types):
                found[module.name] |= {name, name.rpartition(".")[0]} & names - {module.name}
    return found


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import one another, each as large as it gets."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for name in graph.get(todo.pop(), set()) - seen:
                seen.add(name)
                todo.append(name)
        return seen

    ways = {name: reached(name) for name in list(graph)}
    found = {
        frozenset(other for other in ways[name] if name in ways.get(other, ())) for name in ways if name in ways[name]
    }
    return [set(circle) for circle in sorted(found, key=sorted)]


@cache
def breaches(rule: Callable[[Module], Iterator[str]]) -> set[str]:
    return {f"{rule.__name__}: {module.name}: {fact}" for module in PACKAGE for fact in rule(module)}


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps(rule):
    assert breaches(rule) - EXCEPTIONS == set()


def test_the_package_was_found():
    assert "funken.errors" in {module.name for module in PACKAGE}


def test_the_specs_were_found():
    assert {"funken.operators.source.SourceSpec", "funken.operators.wrappers.Converting"} <= specs()


def test_an_exception_no_longer_needed_is_removed():
    assert set().union(*map(breaches, RULES)) >= EXCEPTIONS


def test_no_modules_import_one_another():
    assert circles(arrows(PACKAGE, types=False)) == []


def test_imports_for_types_point_back_in_few_rooms_only():
    found = circles(arrows(PACKAGE, types=True))

    assert [
        circle
        for circle in found
        if not any(all(name.startswith(room + ".") for name in circle) for room in TYPED_CIRCLES)
    ] == []


def test_a_circle_is_seen():
    first = Module("funken.a", "def f():\n    from funken.b import g")
    second = Module("funken.b", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from funken.a import f")

    assert circles(arrows([first, second], types=True)) == [{"funken.a", "funken.b"}]
    assert circles(arrows([first, second], types=False)) == []


def test_a_class_name_means_one_thing():
    names = Counter(
        node.name
        for module in PACKAGE
        if module.part != "compat"
        for node in module.nodes
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )

    assert {name for name, count in names.items() if count > 1} == SAME_NAMES


@pytest.mark.parametrize(
    ("rule", "name", "source", "fact"),
    [
        (import_arrows, "funken.plan.nodes", "import funken.api.environment", "imports funken.api.environment"),
        (import_arrows, "funken.plan.nodes", "from funken.api import streams", "imports funken.api.streams"),
        (import_arrows, "funken.plan.nodes", "from ..api.jobs import client", "imports funken.api.jobs.client"),
        (import_arrows, "funken.plan.nodes", "from .. import api", "imports funken.api"),
        (import_arrows, "funken.plan.nodes", "def f():\n    import funken.api", "imports funken.api"),
        (import_arrows, "funken.plan.nodes", "from funken import DataStream", "imports funken.DataStream"),
        (import_arrows, "funken.config", "import funken.state", "imports funken.state"),
        (
            import_arrows,
            "funken.runtime.exchange.gate",
            "import funken.runtime.task.task",
            "imports funken.runtime.task.task",
        ),
        (import_arrows, "funken.checkpoint.store.blobs", "import funken.checkpoint", "imports funken.checkpoint"),
        (import_arrows, "funken.util", "", "is in no layer"),
        (pyspark_fence, "funken.cli.run", "from pyspark.sql import SparkSession", "imports pyspark.sql.SparkSession"),
        (pyspark_fence, "funken.api.jobs.client", "def f():\n    import pyspark", "imports pyspark"),
        (libraries_use_the_public_surface, "funken.cep.nfa", "import funken.state.ttl", "imports funken.state.ttl"),
        (
            libraries_use_the_public_surface,
            "funken.ml.base",
            "from funken.dataset.plan import nodes",
            "imports funken.dataset.plan.nodes",
        ),
        (one_clock, "funken.runtime.task.task", "import time\nat = time.time()", "uses time.time"),
        (one_clock, "funken.runtime.task.task", "import time as t\nnow = t.monotonic_ns", "uses time.monotonic_ns"),
        (one_clock, "funken.runtime.task.task", "from time import monotonic as now", "imports time.monotonic"),
        (module_size, "funken.api.stream", "\n" * 1001, "is longer than 1000 lines"),
        (module_size, "funken.api.stream", "def f():" + "\n    x = 1" * 60, "f() is longer than 60 lines"),
        (folder_depth, "funken.cep.nfa.states.more", "", "is more than 2 folders deep"),
        (numpy_fence, "funken.connectors.datagen", "def f():\n    import numpy as np", "imports numpy"),
        (light_workers, "funken.operators.window.driver", "import pandas as pd", "imports pandas"),
        (light_workers, "funken.runtime.task.task", "from pyarrow import fs", "imports pyarrow.fs"),
        (
            columns_load_late,
            "funken.runtime.task.task",
            "from funken.columnar.kernels.columns import rows",
            "imports funken.columnar.kernels.columns.rows at the top",
        ),
        (
            specs_are_opaque,
            "funken.runtime.driver.master",
            "from funken.operators.sink import CollectSink",
            "imports the spec funken.operators.sink.CollectSink",
        ),
        (
            specs_are_opaque,
            "funken.runtime.driver.master",
            "isinstance(node.spec, Kind)",
            "asks for isinstance() of a spec",
        ),
        (specs_are_opaque, "funken.spark.submit", "type(n.spec) is Kind", "asks for type() of a spec"),
        (specs_are_opaque, "funken.runtime.task.task", "match node.spec:\n    case Kind(): pass", "matches a spec"),
        (
            rules_run_on_the_driver,
            "funken.runtime.chain.chain",
            "from funken.plan.rules.operators import fused_runs",
            "imports funken.plan.rules.operators.fused_runs",
        ),
    ],
)
def test_the_rule_sees(rule, name, source, fact):
    assert list(rule(Module(name, source))) == [fact]


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (
            import_arrows,
            "funken.api.environment",
            "from funken.plan import nodes\nimport pickle\nfrom .streams import keyed",
        ),
        (import_arrows, "funken.runtime.task.task", "from funken.runtime.exchange.gate import InputGate"),
        (import_arrows, "funken.cep.pattern", "from funken import DataStream"),
        (pyspark_fence, "funken.spark.session", "from pyspark.sql import SparkSession"),
        (libraries_use_the_public_surface, "funken.cep.nfa", "import funken\nfrom funken.cep import buffer"),
        (libraries_use_the_public_surface, "funken.ml.base", "from funken.dataset import DataSet"),
        (one_clock, "funken.runtime.task.task", "import time\ntime.sleep(1)\nrecord.time.time"),
        (one_clock, "funken.timing.clock", "import time\ntime.time()"),
        (module_size, "funken.api.stream", "\n" * 1000),
        (folder_depth, "funken.cep.nfa", ""),
        (numpy_fence, "funken.columnar.kernels.text", "import numpy as np"),
        (light_workers, "funken.runtime.task.task", "import heapq\nimport cloudpickle\nfrom .builder import Subtask"),
        (light_workers, "funken.operators.columnar.windows", "import numpy as np"),
        (
            columns_load_late,
            "funken.runtime.task.task",
            "def f():\n    from funken.columnar.kernels.columns import rows",
        ),
        (columns_load_late, "funken.plan.rules.vectorize", "from funken.columnar.tracing import trace"),
        (
            specs_are_opaque,
            "funken.runtime.task.subtasks",
            "from funken.operators.source import SourceOperator\nspec.build()",
        ),
        (specs_are_opaque, "funken.plan.rules.vectorize", "from funken.operators.source import SourceSpec"),
        (rules_run_on_the_driver, "funken.runtime.driver.job", "from funken.plan.rules.stage import RewriteStage"),
    ],
)
def test_the_rule_allows(rule, name, source):
    assert list(rule(Module(name, source))) == []


def test_an_init_holds_nothing_but_names():
    fine = '"""Doc. May import anything."""\nfrom funken.errors import FunkenError\n__all__ = ["FunkenError"]'
    logic = "def f(): ...\nversion = 1\nif True:\n    import funken.ids"

    assert list(bare_init(Module("funken", fine, is_package=True))) == []
    assert list(bare_init(Module("funken", logic, is_package=True))) == [
        "has FunctionDef in __init__.py",
        "has Assign in __init__.py",
        "has If in __init__.py",
    ]
    assert list(bare_init(Module("funken.api.stream", logic))) == []


def test_a_room_says_what_it_may_import():
    assert list(stated_purpose(Module("funken.io", '"""Files."""', is_package=True))) == [
        "does not say in __init__.py what it may import"
    ]
    assert list(stated_purpose(Module("funken.io", '"""Files. May import errors."""', is_package=True))) == []


def test_every_layer_has_rooms_that_exist():
    places = {SOURCE / "funken" / room.replace(".", "/") for room in RANK}

    assert [str(place) for place in places if not (place.is_dir() or place.with_suffix(".py").is_file())] == []


FILE = re.compile(r"`{1,2}([\w/.-]+\.py)`{1,2}")
PAGES = [*SOURCE.rglob("README.md"), SOURCE.parent / "ARCHITECTURE.md", *SOURCE.parent.glob("docs/internals/*.md")]


@cache
def tails() -> frozenset[str]:
    """Return every file of the repository, from each of its folders on: ``task.py``, ``task/task.py`` and so on."""
    globs = ("src/**/*.py", "tests/**/*.py", "scripts/*.py", "benchmarks/*.py")
    files = (path.relative_to(SOURCE.parent) for pattern in globs for path in SOURCE.parent.glob(pattern))
    return frozenset("/".join(path.parts[depth:]) for path in files for depth in range(len(path.parts)))


def stale(text: str) -> Iterator[str]:
    return (name for name in FILE.findall(text) if name not in tails())


def repeated(page: str) -> Iterator[str]:
    """Yield the files that a line names twice, and those with two rows in tables."""
    rows = Counter(
        name for line in page.splitlines() if line.startswith("|") for name in set(FILE.findall(line.split("|")[1]))
    )
    yield from (name for name, times in rows.items() if times > 1)
    for line in page.splitlines():
        yield from (name for name, times in Counter(FILE.findall(line)).items() if times > 1)


def test_files_that_pages_and_comments_name_exist():
    texts = {path: path.read_text() for path in (*SOURCE.rglob("*.py"), *PAGES)}

    assert [f"{path}: {name}" for path, text in texts.items() for name in stale(text)] == []
    assert list(stale("`task.py`, ``task/task.py``, ``task/mailbox.py``")) == ["task/mailbox.py"]


def test_each_room_has_a_page_that_names_a_file_once():
    folders = [path for path in (SOURCE / "funken").iterdir() if (path / "__init__.py").is_file()]

    assert [folder.name for folder in folders if not (folder / "README.md").is_file()] == []
    assert [f"{page}: {name}" for page in PAGES for name in repeated(page.read_text())] == []
    assert list(repeated("| `a.py` | of `b.py` |\n| `a.py`, `c.py` | |\n`d.py`, `d.py`")) == ["a.py", "d.py"]


def builds_a_session(source: str) -> bool:
    """Return True if a test makes a Spark session of its own, and not one in a program that it starts."""
    nodes = ast.walk(ast.parse(source))
    return any(isinstance(node, ast.Attribute) and ast.unparse(node) == "SparkSession.builder" for node in nodes)


def test_no_test_makes_a_session_that_later_tests_would_get():
    tests = SOURCE.parent / "tests"
    found = {path for path in tests.rglob("*.py") if builds_a_session(path.read_text())}

    assert {str(path.relative_to(tests)) for path in found if "support" not in path.parts} == set()
    assert builds_a_session("spark = SparkSession.builder.getOrCreate()")
    assert not builds_a_session("spark = session()")

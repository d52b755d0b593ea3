"""Compare the names, members and signatures of PyFlink's public modules with those of the compatibility layer.

PyFlink is read as source (``ast``): it need not be installed, and nothing of it is imported or run. What its modules offer is
kept in ``tests/compat/pyflink_surface.json``, what only PyFlink 1.20 offers in ``pyflink_1_surface.json``, and which names can be
imported from each module of both in ``pyflink_namespaces.json``: also those that it imports itself. The layer is imported and
inspected. What it lacks has a reason in ``REASONS``, or is a fault: then the script ends with 1, and
``tests/compat/test_surface.py`` fails.

    python scripts/pyflink_surface.py                       compare, and list what has no reason
    python scripts/pyflink_surface.py --write               and write docs/guide/pyflink-compatibility.md
    python scripts/pyflink_surface.py --wheel download      read PyFlink's wheels anew (or: --wheel new.whl --older old.whl)
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import funken.compat.pyflink  # noqa: F401 - makes `import pyflink` mean the layer
from funken.compat.pyflink.adoption import is_not_there_yet

ROOT = Path(__file__).parents[1]
SURFACE = ROOT / "tests" / "compat" / "pyflink_surface.json"
OLDER = ROOT / "tests" / "compat" / "pyflink_1_surface.json"
NAMESPACES = ROOT / "tests" / "compat" / "pyflink_namespaces.json"
PAGE = ROOT / "docs" / "guide" / "pyflink-compatibility.md"
VERSION, OLDER_VERSION = "2.3", "1.20"
NOT_PUBLIC = re.compile(r"(^|\.)(tests|examples|fn_execution|bin|lib|conf|proto|log|_[a-z]\w*)(\.|$)")

# ---- PyFlink's side: source to surface

Members = dict[str, Any]
"""What a class or module offers: a signature (list) per function, ``None`` for a value, ``Members`` for a class."""


def read_module(tree: ast.Module) -> Members:
    """Return the public names of a module: those of ``__all__``, or else all without an underscore."""
    defined = dict(_definitions(tree.body))
    listed = _listed(tree)
    if listed is None:
        return {name: found for name, found in defined.items() if not name.startswith("_")}
    return {name: defined.get(name) for name in listed}


def _listed(tree: ast.Module) -> list[str] | None:
    names: list[str] | None = None
    for statement in tree.body:
        if isinstance(statement, (ast.Assign, ast.AugAssign)):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if isinstance(target, ast.Name) and target.id == "__all__" and isinstance(statement.value, ast.List):
                names = [*(names or []), *ast.literal_eval(statement.value)]
    return names


def _definitions(body: list[ast.stmt], method: bool = False) -> Iterator[tuple[str, Any]]:
    for statement in body:
        match statement:
            case ast.ClassDef(name=name):
                yield name, read_class(statement)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                decorators = {ast.unparse(each) for each in statement.decorator_list}
                if any(each.endswith(".setter") for each in decorators):
                    continue
                is_value = decorators & {"property", "cached_property", "classproperty"}
                yield name, None if is_value else signature(statement, method and "staticmethod" not in decorators)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, None


def read_class(node: ast.ClassDef) -> Members:
    """Return the public members that a class defines itself, and its constructor as ``__init__`` unless it takes Java objects."""
    given = {each.name: each.args.args for each in node.body if isinstance(each, ast.FunctionDef)}
    of_java = any(each.arg.startswith(("j_", "_j_")) for each in given.get("__init__", []))
    return {
        name: found
        for name, found in _definitions(node.body, method=True)
        if not name.startswith("_") or (name == "__init__" and found is not None and not of_java)
    }


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, drop_first: bool) -> list[str]:
    """Return the parameters: ``name``, ``name=`` if it may be left out, ``*name``, ``**name``; Java's are left out."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    first_default = len(positional) - len(given.defaults)
    found = [each.arg + "=" * (place >= first_default) for place, each in enumerate(positional)]
    found = found[drop_first:]
    found += [f"*{given.vararg.arg}"] if given.vararg else []
    found += [
        each.arg + "=" * (value is not None) for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    found += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return [each for each in found if not each.startswith(("j_", "_j_"))]


def read_namespace(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names without an underscore that a module defines, or imports from other modules of PyFlink."""
    for statement in body:
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.Assign() | ast.AnnAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = [each.id for each in targets if isinstance(each, ast.Name)]
            case ast.ImportFrom(module=module, level=level) if level or (module or "").startswith("pyflink"):
                names = [each.asname or each.name for each in statement.names]
            case ast.If(test=test) if "TYPE_CHECKING" not in ast.unparse(test):
                names = [*read_namespace(statement.body)]
            case ast.Try():
                names = [*read_namespace(statement.body)]
            case _:
                continue
        yield from (name for name in names if not name.startswith("_"))


def modules_of(path: Path) -> Iterator[tuple[str, ast.Module]]:
    """Yield every public module of a wheel, with its source."""
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            if name.startswith("pyflink/") and name.endswith(".py") and not NOT_PUBLIC.search(module):
                yield module, ast.parse(wheel.read(name))


def without(offered: Members, newer: Members) -> Members:
    """Return what is offered and not offered any more.

    >>> without({"A": {"x": None, "y": []}, "f": [], "g": []}, {"A": {"x": None}, "f": ["more="]})
    {'A': {'y': []}, 'g': []}
    """
    found: Members = {}
    for name, members in offered.items():
        if name not in newer:
            found[name] = members
        elif isinstance(members, dict) and isinstance(newer[name], dict) and (gone := without(members, newer[name])):
            found[name] = gone
    return found


def read_wheels(wheel: Path, older: Path) -> None:
    """Write what PyFlink offers, what it offered before, and the names in its modules."""
    surface = {module: read_module(tree) for module, tree in modules_of(wheel)}
    before = {module: read_module(tree) for module, tree in modules_of(older)}
    namespaces: dict[str, set[str]] = defaultdict(set)
    for path in (wheel, older):
        for module, tree in modules_of(path):
            namespaces[module] |= set(read_namespace(tree.body))
    gone = {module: without(offered, surface.get(module, {})) for module, offered in before.items()}
    _write(SURFACE, surface)
    _write(OLDER, {module: offered for module, offered in gone.items() if offered})
    _write(NAMESPACES, {module: " ".join(sorted(names)) for module, names in sorted(namespaces.items()) if names})


def _write(path: Path, by_module: dict[str, Any]) -> None:
    rows = (f"{json.dumps(module)}: {json.dumps(offered)}" for module, offered in by_module.items())
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def download(folder: Path, version: str) -> Path:
    """Return PyFlink's wheel of a version, fetched with pip."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        f"apache-flink=={version}.*",
        "--no-deps",
        "-d",
        str(folder),
    ]
    subprocess.run([*command, "--only-binary", ":all:"], check=True)
    return next(folder.glob(f"apache_flink-{version}*.whl"))


# ---- the comparison


@dataclass(frozen=True)
class Gap:
    """Something of PyFlink that the layer has not, or has differently; ``lost`` counts what is missing with it."""

    name: str  # "pyflink.common.time:Time.milliseconds"
    what: str  # "module", "name", "member" or "signature"
    lost: Counter[str]
    detail: str = ""


@dataclass(frozen=True)
class Comparison:
    """What became of one module: how many names, members and signatures it offers, and the gaps."""

    module: str
    offered: Counter[str]
    gaps: tuple[Gap, ...]


def counts(wanted: Any) -> Counter[str]:
    """Count the members and signatures in something that PyFlink offers.

    >>> sorted(counts({"key": None, "get": ["name", "default="]}).items())
    [('members', 2), ('signatures', 1)]
    """
    if isinstance(wanted, list):
        return Counter(signatures=1)
    found: Counter[str] = Counter()
    for name, inner in (wanted or {}).items():
        found += counts(inner) + Counter(members=name != "__init__")
    return found


def counts_of_module(offered: Members) -> Counter[str]:
    """Count the names of a module, and the members and signatures in them."""
    return sum(map(counts, offered.values()), Counter(names=len(offered)))


def compare(module: str, offered: Members) -> Comparison:
    """Compare one module of PyFlink with the layer's."""
    total = counts_of_module(offered)
    try:
        ours = importlib.import_module(module)
    except ImportError as error:
        return Comparison(module, total, (Gap(module, "module", total, str(error)),))
    gaps: list[Gap] = []
    for name, wanted in offered.items():
        found = getattr(ours, name, ours)
        if found is ours or (isinstance(found, type) and is_not_there_yet(found)):
            gaps.append(Gap(f"{module}:{name}", "name", counts(wanted) + Counter(names=1)))
        else:
            _compare(f"{module}:{name}", wanted, found, gaps)
    return Comparison(module, total, tuple(gaps))


def _compare(name: str, wanted: Any, found: Any, gaps: list[Gap]) -> None:
    if isinstance(wanted, list):
        _compare_signature(name, wanted, found, gaps)
        return
    for member, inner in (wanted or {}).items():
        if member == "__init__":
            _compare_signature(f"{name}()", inner, found, gaps)
        elif inspect.getattr_static(found, member, gaps) is gaps:
            gaps.append(Gap(f"{name}.{member}", "member", counts(inner) + Counter(members=1)))
        else:
            _compare(f"{name}.{member}", inner, getattr(found, member), gaps)


def _compare_signature(name: str, wanted: list[str], found: Any, gaps: list[Gap]) -> None:
    try:
        parameters = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        gaps.append(Gap(name, "signature", Counter(signatures=1), "cannot be called"))
        return
    is_method = inspect.isfunction(found) and parameters and parameters[0].name == "self"
    difference = differs(wanted, parameters[1:] if is_method else parameters)
    if difference:
        gaps.append(Gap(name, "signature", Counter(signatures=1), difference))


def differs(wanted: list[str], parameters: list[inspect.Parameter]) -> str:
    """Say how a call that PyFlink's signature allows would fail; empty if none would."""
    kinds = inspect.Parameter
    takes_any = {each.kind for each in parameters} >= {kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD}
    if takes_any:
        return ""
    by_name = {each.name: place for place, each in enumerate(parameters)}
    for place, text in enumerate(wanted):
        name = text.strip("*=")
        if text.startswith("*"):
            same_kind = kinds.VAR_KEYWORD if text.startswith("**") else kinds.VAR_POSITIONAL
            if not any(each.kind is same_kind for each in parameters):
                return f"takes no {text}"
            continue
        ours = parameters[by_name[name]] if name in by_name else None
        if ours is None or ours.kind is kinds.POSITIONAL_ONLY:
            called = parameters[place].name if place < len(parameters) else "not there"
            return f"{name}: {called}"
        if by_name[name] != place and ours.kind is kinds.POSITIONAL_OR_KEYWORD:
            return f"{name} has another place"
        if text.endswith("=") and ours.default is kinds.empty:
            return f"{name} must be given"
    offered = {text.strip("*=") for text in wanted}
    for each in parameters:
        variable = each.kind in {kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD}
        if each.name not in offered and each.default is kinds.empty and not variable:
            return f"{each.name} must be given"
    return ""


# ---- the reasons

REASONS: tuple[tuple[str, str], ...] = (
    (
        "Plans are not compiled to files: operators keep their uids, and a changed query is restored by them.",
        r"^pyflink\.table\.\w+:(CompiledPlan|PlanReference|\w+PlanReference|\w+\.(compile_plan\w*|execute_plan|load_plan))",
    ),
    (
        "Catalogs are classes of Python, in `funken.table.catalog`; what they keep are its data classes.",
        r"^pyflink\.table\.catalog:|(Table|Catalog|Database|Partition|Model|Function)\w*Exception$",
    ),
    (
        "It was replaced long ago, or belongs to the insides of PyFlink's Table API.",
        r"^pyflink\.table\.(descriptors:|functions$|utils$|serializers$|resolved_expression)|UserDefinedType\.|HiveModule",
    ),
    (
        "It reaches for Flink's JVM, and there is none.",
        r"java_gateway|java_utils|_server(:|$)|(get_java|to_j|get_transformer)\w*$|kryo|get_registered_pojo|JavaObjectWrapper|JavaException"
        r"|util\.exceptions:|:InputFormat|CustomCheckpointStorage|CustomStateBackend|find_flink_home|pyflink\.shell",
    ),
    (
        "The connector is not there yet, or stays with Flink; the message of its names says what to use.",
        r"connectors\.(cassandra|dynamic_kafka|hybrid_source|jdbc)|FlinkKafka|:Semantic$"
        r"|RecordDeserializationSchema|BulkFormat$|BulkWriterFactory",
    ),
    (
        "Programs do not call it: a builder, a factory or a method of a stream makes such objects, and Funken makes its own.",
        r"\(\)$|(OptionBuilder|TypedConfigOptionBuilder|AccumulateType|AsyncFunctionDescriptor)$",
    ),
    (
        "It belongs to the insides of PyFlink: how values are encoded, how its triggers and tests are built.",
        r"erializer\w*\.(de)?serialize$|pyflink\.serializers|TypeInformation\.(need_conversion|to_internal|from_internal)|MergeCallback"
        r"|register_next_fire|get_current_processing_time|pyflink\.testing|gen_protos|datastream\.utils|get_directive",
    ),
    (
        "There is one way to clean up expired state, and it is always on.",
        r"CleanupStrategies\.(Strategies|\w*Strategy|EMPTY_STRATEGY)",
    ),
    (
        "It stands in the source of PyFlink's modules, and is no part of what they offer.",
        r"Wrapper$|:Internal\w+|:\w*TypeInfo$|:WINDOW_STATE_NAME|WindowOperationDescriptor|(read|write)_int$|:keyword$|add_version_doc"
        r"|VoidNamespaceSerializer|:void$|:typeinfo$|get_field$|convert_\w+$|ResultTypeQueryable|create_(hadoop|java|arrow|url)_\w+"
        r"|is_local_deployment|:java_utils$|to_jarray|to_\w*expression_jarray|(from|to)_arrow_type"
        r"|tz_convert|converter$|(Aggregated|FlatAggregate)Table$|Delegat\w+|ImperativeAggregate|:(OverWindow|Session|Slide|Tumble)\w+"
        r"|\w+PlanReference$|BaseAPIStability|NO_RETRY_STRATEGY|:async_retry_strategies$|:(Atomic|Fractional|ZonedTimestamp|ListView"
        r"|MapView)\w*$|:Resolution$|:UserDefinedFunction$|:\w*TestCase$|:Tuple2$|:TestEnv$|EPOCH_ORDINAL|:exec_insert_table$"
        r"|:(log_level|replace_uuid|run_with_config|invoke_java\w+|exception_mapping|install_py4j_hooks)$|:(from|to)_j_\w+$|serializers?:|erializer$|:Catalog$",
    ),
    (
        "The Table API of PyFlink 1.x had it; PyFlink 2 has DDL and descriptors.",
        r"pyflink\.table\.(sinks|sources)|:(Csv)?Table(Source|Sink)$|:WriteMode$|TableEnvironment\.(register|scan|from_table_source)"
        r"|idle_state_retention_time|EnvironmentSettings\.(to|from)_configuration|to_timestamp_ltz",
    ),
    (
        "Of delimited text and Avro, these settings are not there.",
        r"CsvSchemaBuilder\.(set_any|disable_array|remove_array|set_line)|get_produced_type",
    ),
)


def reason_of(gap: Gap) -> str | None:
    """Return why something is missing or different; ``None`` if nobody has said."""
    return next((why for why, pattern in REASONS if re.search(pattern, gap.name)), None)


# ---- the page

HEAD = """\
# PyFlink, name by name

This page compares the public modules of PyFlink {version} with `import pyflink` in [Funken's layer](porting-from-pyflink.md):
names, members of classes, and signatures. A signature is the same if every call that PyFlink's allows is accepted, with the same
names of parameters. The same name does not show the same behaviour. PyFlink's own tests do, [on the page
about porting](porting-from-pyflink.md#how-it-is-checked).

This page is written by `scripts/pyflink_surface.py`, which reads PyFlink's source.

| | offered | there | share |
|---|---|---|---|
"""


def page(comparisons: list[Comparison]) -> str:
    """Return the page."""
    lines = [HEAD.format(version=VERSION).rstrip("\n")]
    tables = [each for each in comparisons if each.module.startswith("pyflink.table")]
    for title, chosen in (
        ("all modules", comparisons),
        ("`pyflink.datastream` and `pyflink.common`", _core(comparisons)),
        ("`pyflink.table`", tables),
    ):
        for what in ("names", "members", "signatures"):
            offered = sum(each.offered[what] for each in chosen)
            there = offered - sum(gap.lost[what] for each in chosen for gap in each.gaps)
            lines.append(f"| {title}: {what} | {offered:,} | {there:,} | {there / offered:.1%} |")
    lines += [
        "",
        "## By module",
        "",
        "| module | names | members | signatures | missing or different |",
        "|---|---|---|---|---|",
    ]
    for each in comparisons:
        figures = " | ".join(str(each.offered[what]) for what in ("names", "members", "signatures"))
        lines.append(f"| `{each.module}` | {figures} | {len(each.gaps) or ''} |")
    lines += ["", "## What is missing or different, and why"]
    by_reason: dict[str, list[Gap]] = defaultdict(list)
    for gap in (gap for each in comparisons for gap in each.gaps):
        by_reason[reason_of(gap) or "No reason is known."].append(gap)
    for why in [*(why for why, _ in REASONS), "No reason is known."]:
        if by_reason[why]:
            lines += ["", f"### {why.rstrip('.')}", "", *_listing(by_reason[why])]
    return "\n".join(lines) + "\n"


def _core(comparisons: list[Comparison]) -> list[Comparison]:
    """Return the modules that ordinary jobs use: without the connectors to other systems."""
    chosen = re.compile(r"pyflink\.(common|datastream)(?!\.connectors\.(?!base|file_system|kafka|number_seq))")
    return [each for each in comparisons if chosen.match(each.module)]


def _listing(gaps: list[Gap]) -> list[str]:
    by_module: dict[str, list[str]] = defaultdict(list)
    for gap in gaps:
        module, _, name = gap.name.partition(":")
        shown = f"`{name}`" if name else "all of it"
        by_module[module].append(
            shown + (f" ({gap.detail})" if gap.what == "signature" and not name.endswith("()") else "")
        )
    return [f"* `{module}`: {', '.join(names)}" for module, names in by_module.items()]


def kept(path: Path = SURFACE) -> dict[str, Any]:
    """Return the surface that is kept in the repository."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def older_comparisons() -> list[Comparison]:
    """Compare what only PyFlink 1.20 offers."""
    return [compare(module, offered) for module, offered in kept(OLDER).items()]


def missing_names() -> list[Gap]:
    """Return the names that can be imported from a module of PyFlink's, and not from the layer's."""
    gaps = []
    for module, names in kept(NAMESPACES).items():
        try:
            ours = importlib.import_module(module)
        except ImportError as error:
            gaps.append(Gap(module, "module", Counter(names=len(names.split())), str(error)))
            continue
        gaps += [Gap(f"{module}:{name}", "name", Counter(names=1)) for name in names.split() if not hasattr(ours, name)]
    return gaps


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheel", help="read this wheel of PyFlink anew, or 'download' both first")
    parser.add_argument("--older", help="the wheel of the older version")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    if given.wheel:
        with tempfile.TemporaryDirectory() as folder:
            wheels = [given.wheel, given.older]
            if given.wheel == "download":
                wheels = [download(Path(folder), version) for version in (VERSION, OLDER_VERSION)]
            read_wheels(*map(Path, wheels))
    comparisons = [compare(module, offered) for module, offered in kept().items()]
    if given.write:
        PAGE.write_text(page(comparisons))
    comparisons += older_comparisons()
    gaps = [gap for each in comparisons for gap in each.gaps] + missing_names()
    unexplained = [gap for gap in gaps if reason_of(gap) is None]
    for gap in unexplained:
        print(f"{gap.what:14} {gap.name}  {gap.detail}")
    print(f"{len(comparisons)} modules, {len(gaps)} gaps, {len(unexplained)} without a reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())

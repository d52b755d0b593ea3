"""The import hook: ``pyflink`` and its modules are made of Funken's modules, by the table in this module.

Importing this module installs the hook. It goes before Python's own finders, so that it also wins where PyFlink is
installed, but refuses to mix with a PyFlink that was imported already.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import takewhile
from types import ModuleType
from typing import Any

# ---- PyFlink's modules, and which of Funken's hold what is in them. This table is the surface of the compatibility
# layer.
#
# A PyFlink module has all public names of the modules listed for it, which may be more than in PyFlink. A module of
# PyFlink's also has what it imports from others (``pyflink.datastream.window.Time``): ``passed_on`` finds such names.


_HERE = "funken.compat.pyflink."
_OF_ALL = f"{_HERE}type_variables"
"""The module of names that are in no ``__all__`` of PyFlink's, but in many of its modules."""
_COMMON = (
    "times",
    "settings",
    "jobs",
    "resources",
    "backends",
    "formats",
    "file_formats",
    "watermarks",
    "types",
)
_DATASTREAM = (
    "functions", "streams", "environment", "windows", "states", "settings", "resources", "backends", "connectors",
    "older_connectors",
)  # fmt: skip

_CONNECTORS = ("connectors", "older_connectors", "search", "kinesis", "pulsar")

MODULES: dict[str, tuple[str, ...]] = {
    "pyflink": ("version",),
    "pyflink.version": ("version",),
    "pyflink.java_gateway": ("java",),
    "pyflink.pyflink_gateway_server": ("java",),
    "pyflink.metrics": ("metrics",),
    "pyflink.metrics.metricbase": ("metrics",),
    "pyflink.serializers": ("windows",),
    "pyflink.util": (),
    "pyflink.util.java_utils": ("java",),
    "pyflink.util.utils": ("java",),
    "pyflink.util.exceptions": ("exceptions",),
    "pyflink.util.api_stability_decorators": ("exceptions",),
    "pyflink.dataset": ("table_environments",),
    "pyflink.dataset.execution_environment": ("table_environments",),
    "pyflink.table": ("tables",),
    "pyflink.table.catalog": ("catalogs",),
    "pyflink.table.descriptors": ("tables", "older_tables"),
    "pyflink.table.resolved_expression": ("tables",),
    "pyflink.table.sinks": ("older_tables",),
    "pyflink.table.sources": ("older_tables",),
    "pyflink.table.expression": ("funken.table.expression",),
    "pyflink.table.expressions": ("funken.table.expressions", "namesakes"),
    "pyflink.table.module": ("tables",),
    "pyflink.table.types": ("tables", "atomic_types", "data_types", "inferred_types"),
    "pyflink.table.udf": ("tables", "funken.table.udf"),
    "pyflink.table.window": ("table_environments",),
    "pyflink.shell": ("shell",),
    "pyflink.testing": (),
    "pyflink.testing.source_sink_utils": ("testing",),
    "pyflink.testing.test_case_utils": ("testing",),
    "pyflink.common": (*_COMMON, "windows"),
    "pyflink.common.io": ("java",),
    "pyflink.common.utils": ("java",),
    "pyflink.common.serializer": ("windows",),
    "pyflink.datastream": _DATASTREAM,
    "pyflink.datastream.output_tag": ("states",),
    "pyflink.datastream.timerservice": ("functions",),
    "pyflink.datastream.time_domain": ("functions",),
    "pyflink.datastream.functions": ("functions",),
    "pyflink.datastream.data_stream": ("streams", "jobs"),
    "pyflink.datastream.async_data_stream": ("streams",),
    "pyflink.datastream.async_retry_strategies": ("streams",),
    "pyflink.datastream.async_retry_predicates": ("streams",),
    "pyflink.datastream.stream_execution_environment": ("environment",),
    "pyflink.datastream.execution_mode": ("environment",),
    "pyflink.datastream.window": ("windows",),
    "pyflink.datastream.state": ("states",),
    "pyflink.datastream.state_backend": ("backends",),
    "pyflink.datastream.checkpoint_storage": ("backends",),
    "pyflink.datastream.slot_sharing_group": ("resources",),
    "pyflink.datastream.time_characteristic": ("resources",),
    "pyflink.datastream.checkpoint_config": ("settings", "backends"),
    "pyflink.datastream.checkpointing_mode": ("settings",),
    "pyflink.datastream.externalized_checkpoint_retention": ("settings",),
    "pyflink.datastream.tests": (),
    "pyflink.datastream.tests.test_util": ("testing",),
    "pyflink.datastream.connectors": _CONNECTORS,
    "pyflink.datastream.formats": (),
} | {
    f"pyflink.common.{name}": _COMMON
    for name in (
        "completable_future", "config_options", "configuration", "constants", "execution_config", "execution_mode",
        "input_dependency_constraint", "job_client", "job_execution_result", "job_id", "job_status",
        "restart_strategy", "serialization", "time", "typeinfo", "types", "watermark_strategy",
    )
} | {
    f"pyflink.table.{name}": ("tables",)
    for name in (
        "changelog_mode", "compiled_plan", "data_view", "environment_settings", "explain_detail", "model_descriptor",
        "plan_reference", "result_kind", "schema", "sql_dialect", "statement_set", "table", "table_config",
        "table_descriptor", "table_environment", "table_pipeline", "table_result", "table_schema",
    )
} | {
    f"pyflink.dataframe{name}": ("frames", "funken.dataframe")
    for name in (
        "", ".catalog", ".context", ".convert", ".dataframe", ".dataframe_config", ".datatype", ".io", ".iteration",
        ".model_provider", ".sql", ".udaf", ".udf", ".udtf",
    )
} | {
    f"pyflink.datastream.connectors.{name}": _CONNECTORS
    for name in (
        "base", "cassandra", "dynamic_kafka", "elasticsearch", "file_system", "hybrid_source", "jdbc", "kafka",
        "kinesis", "number_seq", "pulsar", "rabbitmq",
    )
} | {
    f"pyflink.datastream.formats.{name}": ("formats", "file_formats") for name in ("avro", "csv", "json", "orc", "parquet")
}  # fmt: skip

REFUSED = {
    "pyflink.fn_execution": "These are the insides of PyFlink's workers. Use the names of pyflink.datastream.",
    "pyflink.table.functions": "These are the insides of PyFlink's planner. Use functions of pyflink.table.udf.",
    "pyflink.table.serializers": "These are the insides of PyFlink's workers. Use from_pandas() and to_pandas().",
    "pyflink.ml": "Flink ML is another package, on Flink. funken.ml has KMeans, StandardScaler, Pipeline and their like: "
    "from funken.ml import KMeans. A vector is a NumPy array or a tuple.",
    "pyflink.cep": "PyFlink has no patterns of events. Use those of Funken: from funken.cep import CEP, Pattern.",
    "pyflink.gelly": "PyFlink has no graphs. Use those of Funken: from funken.graph import Graph.",
}


def sources(name: str) -> list[str] | None:
    """Return the modules of Funken for the names of a PyFlink module; ``None`` if there is no such module.

    >>> sources("pyflink.datastream.window")
    ['funken.compat.pyflink.windows']
    """
    found = MODULES.get(name)
    return None if found is None else [each if each.startswith("funken.") else _HERE + each for each in found]


def public_names(name: str) -> dict[str, Any]:
    """Return the public names of a module of Funken, with their values: those in its ``__all__``.

    A module of this layer has its own classes, too. Its ``PASSED_ON`` lists names of other modules, by the module.

    >>> sorted(public_names("funken.compat.pyflink.metrics"))
    ['Counter', 'Distribution', 'Meter', 'Metric', 'MetricGroup']
    """
    module = importlib.import_module(name)
    names = {public: getattr(module, public) for public in getattr(module, "__all__", ())}
    if name.startswith(_HERE):
        own = (value for value in vars(module).values() if isinstance(value, type) and value.__module__ == name)
        names |= {value.__name__: value for value in own if not value.__name__.startswith("_")}
    for home, passed in getattr(module, "PASSED_ON", {}).items():
        names |= {public: getattr(importlib.import_module(home), public) for public in passed.split()}
    return names


def refusal(name: str) -> str | None:
    """Return the reason for which a PyFlink module cannot be there, if it is one of those.

    >>> refusal("pyflink.ml.core").split(",")[0]
    'Flink ML is another package'
    """
    if name in MODULES:
        return None
    return next((why for module, why in REFUSED.items() if name == module or name.startswith(f"{module}.")), None)


def passed_on(module: str) -> Iterator[str]:
    """Yield the modules of Funken that may have a name which a PyFlink module imports: the nearest PyFlink modules first.

    >>> list(passed_on("pyflink.datastream.window"))[:2]
    ['funken.compat.pyflink.windows', 'funken.compat.pyflink.functions']
    """
    parts = module.split(".")
    nearest = sorted(MODULES, key=lambda other: -_shared(parts, other.split(".")))
    yield from dict.fromkeys(each for other in [module, *nearest] for each in sources(other) or ())
    yield _OF_ALL


def _shared(parts: list[str], others: list[str]) -> int:
    """Return the number of common first parts of two names."""
    equal = (one == other for one, other in zip(parts, others, strict=False))
    return sum(1 for _ in takewhile(bool, equal))


def _absence(name: str) -> str:
    """Return the reason why neither a module nor a name of a module is there, and what to use.

    >>> _absence("pyflink.datastream.checkpoint_mode")
    "Funken knows no such name of PyFlink 1 or 2. Did you mean 'pyflink.datastream.checkpointing_mode'?"
    >>> _absence("pyflink.table.types._to_java_type")
    "it is of PyFlink's insides, which call Flink's JVM. Use the public names of pyflink.table.types."
    """
    module, _, last = name.rpartition(".")
    if last.startswith("_") and module in MODULES:
        return f"it is of PyFlink's insides, which call Flink's JVM. Use the public names of {module}."
    known = [*MODULES]
    if module in MODULES and not last.islower():
        names = {public for each in passed_on(module) for public in public_names(each)}
        known = [f"{module}.{public}" for public in sorted(names)]
    top = "pyflink."
    near = get_close_matches(name.removeprefix(top), [each.removeprefix(top) for each in known], 1, 0.75)
    hint = f"Did you mean {top + near[0]!r}?" if near else "Use the names that Funken's guide to PyFlink lists."
    return f"Funken knows no such name of PyFlink 1 or 2. {hint}"


class PyFlinkFinder(MetaPathFinder, Loader):
    """Finds and makes the modules of PyFlink."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a PyFlink module, ``None`` for any other."""
        if fullname != "pyflink" and not fullname.startswith("pyflink."):
            return None
        why = refusal(fullname)
        if why is not None:
            raise ImportError(f"{fullname} cannot be imported: {why}", name=fullname)
        if sources(fullname) is None:
            what = f"No module named {fullname!r}: {_absence(fullname)}"
            raise ModuleNotFoundError(
                what, name=fullname.rpartition(".")[2]
            )  # Python hides an error with the full name
        return ModuleSpec(fullname, self, origin="funken.compat.pyflink", is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to Python."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module with the public names of those it is made of."""
        for name in sources(module.__name__) or ():
            vars(module).update(public_names(name))
        module.__doc__ = f"{module.__name__}, by Funken."
        module.__file__ = __file__  # programs print PyFlink's folder

        def imported(name: str) -> Any:
            """Return a name that PyFlink's module imports from another one."""
            if not name.startswith("_") and sources(f"{module.__name__}.{name}") is None:
                for names in map(public_names, passed_on(module.__name__)):
                    if name in names:
                        vars(module)[name] = names[name]
                        return names[name]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name, obj=module)

        module.__getattr__ = imported  # type: ignore[method-assign]


def install() -> None:
    """Make ``import pyflink`` mean Funken, from now on; a second call does nothing.

    Raises ``ImportError`` if PyFlink itself was imported before.

    >>> install()
    >>> from pyflink.common import Types
    >>> from pyflink.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(1)
    >>> words = env.from_collection(["to", "be"], Types.STRING())
    >>> with words.map(str.upper, Types.STRING()).execute_and_collect() as results:
    ...     list(results)
    ['TO', 'BE']
    """
    if any(isinstance(finder, PyFlinkFinder) for finder in sys.meta_path):
        return
    real = sys.modules.get("pyflink")
    if real is not None:
        raise ImportError(
            f"PyFlink itself was imported already, from {getattr(real, '__file__', 'somewhere')}. Import "
            "funken.compat.pyflink first, or use 'funken run --pyflink job.py'."
        )
    sys.meta_path.insert(0, PyFlinkFinder())


install()

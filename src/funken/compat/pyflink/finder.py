"""The import hook: ``pyflink`` and what is below it become modules made of Funken's, by the table in ``surface.py``.

Importing this module installs the hook. It goes before Python's own finders, so that it also wins where PyFlink is
installed, but refuses to mix with a PyFlink that was imported already.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from funken.compat.pyflink.surface import passed_on, refusal, sources


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
            raise ModuleNotFoundError(f"No module named {fullname!r}: Funken has nothing for it.", name=fullname)
        return ModuleSpec(fullname, self, origin="funken.compat.pyflink", is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to Python."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill a module with the public names of those it is made of."""
        for name in sources(module.__name__) or ():
            source = importlib.import_module(name)
            vars(module).update({public: getattr(source, public) for public in source.__all__})
        module.__doc__ = f"{module.__name__}, by Funken."

        def imported(name: str) -> Any:
            """Return a name that PyFlink's module imports from another one."""
            if not name.startswith("_") and sources(f"{module.__name__}.{name}") is None:
                for source in map(importlib.import_module, passed_on(module.__name__)):
                    if name in source.__all__:
                        vars(module)[name] = getattr(source, name)
                        return vars(module)[name]
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

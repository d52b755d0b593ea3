"""One tree of errors: what the package raises is in it, and the page shows all of it."""

import functools
import importlib
import re
import runpy
from pathlib import Path

from funken import errors

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")

# Exceptions that are no FunkenError: each is caught where it belongs, or belongs to tests. This may only shrink.
OUTSIDE = {
    "CannotMerge",  # small files stay as they are
    "BadBytes",  # becomes SourceNotReadable, with the file
    "ContractViolation",  # of the test kit: an AssertionError
    "Interrupted",  # stops user code that runs in this process
    "HungUp",  # becomes TaskLost
    "Lost",  # a connection to RabbitMQ: is made again, or becomes SourceNotReadable or SinkNotWritable
    "NotTaken",  # by RabbitMQ: becomes SourceNotReadable or SinkNotWritable
    "OfTheProgram",  # becomes InvalidProgram, with the operator
    "NeedsConversionError",  # values are converted one by one
    "PeerClosed",  # ends a split of a feed, or its connection is made again
    "Quit",  # ends the SQL client: no `except Exception` of a statement may stop it
    "Told",  # a signal: ends the program, as KeyboardInterrupt does
    "OwnHash",  # a key is looked up by its hash
    "NotToRun",  # ends a script whose plan is to be printed: no `except Exception` may stop it
    "ReduceFailed",  # becomes OperatorFailed, with the record
    "RequestFailed",  # becomes SourceNotReadable or SinkNotWritable, with the operator
    "RequestRefused",  # becomes SinkNotWritable, with the operator
    "UnknownBytecode",  # becomes NotVectorizable, or a call
}


@functools.cache
def found_classes():
    """Return the exception classes of the package; to read all its modules takes seconds, not for every process that collects."""
    return runpy.run_path(str(ROOT / "scripts" / "gen_reference.py"))["exception_classes"]()


def parents(found):
    for base in found.bases:
        yield base
        if base in found_classes():
            yield from parents(found_classes()[base])


def test_every_error_of_the_package_is_in_the_tree():
    outside = {
        name for name, found in found_classes().items() if name != "FunkenError" and "FunkenError" not in parents(found)
    }

    assert {name for name in outside if not name.startswith("_")} == OUTSIDE


def test_the_page_shows_each_error_of_the_tree_once_below_its_parent():
    rows = re.findall(r"^\| ((?:&nbsp;)*)`(\w+)`", PAGE, re.MULTILINE)
    way, shown = [], {}
    for indent, name in rows:
        depth = len(indent) // len("&nbsp;" * 4)
        assert name not in shown
        shown[name] = way[depth - 1] if depth else ""
        way[depth:] = [name]

    tree = {
        name: getattr(importlib.import_module(found.module), name)
        for name, found in found_classes().items()
        if name == "FunkenError" or ("FunkenError" in parents(found) and not name.startswith("_"))
    }
    assert shown == {
        name: "" if kind is errors.FunkenError else kind.__bases__[0].__name__ for name, kind in tree.items()
    }
    assert all(issubclass(kind, errors.FunkenError) for kind in tree.values())


def test_every_error_has_a_meaning():
    assert [name for name, found in found_classes().items() if not found.meaning and not name.startswith("_")] == []

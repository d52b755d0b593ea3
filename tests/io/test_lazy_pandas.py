"""pyarrow imports pandas when a program does, and not before."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("pandas")


def told(program, *lines):
    """What a process prints that has spared pandas for a program."""
    begin = ["import json, sys", "from funken.io.lazy_pandas import spare_pandas", f"spare_pandas({program!r})"]
    text = "\n".join([*begin, "import numpy, pyarrow as pa", *lines])
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


ARRAYS = "made = pa.array(['a', None]), pa.array(numpy.array([1])).take(numpy.array([0])), pa.array([1.0]).to_numpy()"
LOADED = "'pandas' in sys.modules"


def test_arrays_do_not_import_it():
    assert told(b"a program", ARRAYS, f"print(json.dumps([{LOADED}, made[0].null_count]))") == [False, 1]


def test_a_program_with_its_name_is_left_alone():
    values = "pa.array([1, __import__('pandas').NA], from_pandas=True).null_count"
    assert told(b"... pandas ...", ARRAYS, f"print(json.dumps([{LOADED}, {values}]))") == [True, 1]


@pytest.mark.parametrize(
    "before", ["import pandas as pd", "frame = pa.table({'a': [1]}).to_pandas(); import pandas as pd"]
)
def test_its_objects_are_known_once_it_is_imported(before):
    lines = [
        ARRAYS,
        before,
        "series = pd.Series([1.0, float('nan')], index=['x', 'y'])",
        "table = pa.Table.from_pandas(pd.DataFrame({'a': pd.Series([1.5, None]), 't': pd.to_datetime([None, '2024-02-29'])}))",
        "counts = [column.null_count for column in table.columns]",
        "print(json.dumps([pa.array(series).null_count, counts, pa.array(pd.Categorical(['a', 'a'])).type.equals(",
        "    pa.dictionary(pa.int8(), pa.string())), [type(each).__name__ for each in sys.meta_path].count('_Watch')]))",
    ]
    assert told(b"a program", *lines) == [1, [1, 1], True, 0]


def test_a_failed_import_is_the_programs():
    lines = ["sys.path[:] = []", "import importlib; importlib.invalidate_caches(); sys.path_importer_cache.clear()"]
    lines += ["try:", "    import pandas", "except ModuleNotFoundError as error:", "    print(json.dumps(str(error)))"]
    assert told(b"a program", *lines) == "No module named 'pandas'"


def test_a_process_that_has_it_is_left_as_it_is():
    lines = ["print(json.dumps([type(each).__name__ for each in sys.meta_path].count('_Watch')))"]
    text = "import pandas, json, sys\nfrom funken.io.lazy_pandas import spare_pandas\nspare_pandas(b'')\n" + lines[0]
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == 0

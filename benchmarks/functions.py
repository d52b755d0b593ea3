"""What functions of one value cost per record: in the kernels, and as a loop of Python over objects that are there already.

usage: functions.py [--records N] [--only part of an expression]; prints nanoseconds, the least of twenty rounds, and marks what
kernels are slower at. The results are compared first. What is left out are the ways between columns and objects: those cost a
program more than most of these functions, and are why it stays on columns behind a source of columns.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from funken.columnar.kernels.columns import Columns, column_of
from funken.columnar.kernels.evaluation import computed
from funken.columnar.tracing import trace
from funken.expr import types

SPACE = {
    "math": math,
    "re": re,
    "datetime": datetime,
    "UTC": UTC,
    "WORD": re.compile(r"(\d+) page"),
    "TABLE": {"a": 1, "b": 2},
}
TEXT = """
    x.find('page')  x.rfind(' ')  x.lstrip()  x.strip('u')  x.upper()  x.title()  x.isdigit()  x.isalpha()
    x.removeprefix('user-')
    x.ljust(20)  x[5:]  x[:4]  x[-2:]  x[0]  x.split(' ')[0]  x.split(' ')[-1]  x.split()[0]  x.split(' ', 1)[1]
    len(x.split(' '))  x.partition(' ')[2]  x.replace('-', '_')  x.count('e')  len(x)  'page 7' in x  x.startswith('user-1')
    x < 'user-5'  f'<{x}>'  f'{x:>20}'  x in ('a', 'b')  WORD.search(x) is not None
    WORD.sub('', x)
    re.search('7 p', x) is not None"""
DIGITS = "int(x)  x.zfill(8)  x.rjust(8)"
DECIMALS = "float(x)"
CODE = "TABLE.get(x, 0)  x in TABLE  TABLE[x] if x in TABLE else -1"
WHOLE = """
    x ** 2  x % 1000  x // 1000  x & 255  str(x)  f'{x:08d}'  f'{x:,}'  math.sqrt(x)  x / 3
    min(x, 5000)  x if x % 2 else -x"""
FLOAT = """
    x * 2  round(x)  round(x, 2)  int(x)  x % 1.0  x // 1.0  x ** 2  math.log(x)  math.floor(x)  math.isnan(x)
    math.hypot(x, 1.0)  str(x)  f'{x:.2f}'  abs(x - 500)"""
MILLIS = """
    datetime.fromtimestamp(x / 1000, UTC).hour  datetime.fromtimestamp(x / 1000, UTC).isoformat()
    datetime.fromtimestamp(x // 1000, UTC).strftime('%Y-%m-%d')  str(datetime.fromtimestamp(x / 1000, UTC).date())"""
ISO = "int(datetime.fromisoformat(x).timestamp() * 1000)  datetime.fromisoformat(x).hour"
SECONDS = "datetime.strptime(x, '%Y-%m-%d %H:%M:%S').minute"


def values(records: int) -> list[tuple[str, types.Atomic, list[Any]]]:
    """Return the expressions, the type of their values, and values."""
    dice = random.Random(1)
    millis = [1_709_164_770_123 + dice.randrange(10**9) * 7 for _ in range(records)]
    times = [datetime.fromtimestamp(each / 1000, UTC) for each in millis]
    return [
        (TEXT, types.STR, [f"user-{dice.randrange(10**6)} page {dice.randrange(100)}" for _ in millis]),
        (DIGITS, types.STR, [str(dice.randrange(10**6)) for _ in millis]),
        (DECIMALS, types.STR, [repr(round(dice.random() * 1000, 2)) for _ in millis]),
        (CODE, types.STR, [dice.choice("abcdef") for _ in millis]),
        (WHOLE, types.INT, [dice.randrange(10**9) for _ in millis]),
        (FLOAT, types.FLOAT, [dice.random() * 1000 for _ in millis]),
        (MILLIS, types.INT, millis),
        (ISO, types.STR, [each.isoformat(timespec="milliseconds") for each in times]),
        (SECONDS, types.STR, [each.strftime("%Y-%m-%d %H:%M:%S") for each in times]),
    ]


def least(call: Callable[[], Any], records: int) -> float:
    """Return the nanoseconds per record of the fastest of twenty rounds."""
    spent = []
    for _ in range(20):
        begin = time.perf_counter()
        call()
        spent.append(time.perf_counter() - begin)
    return min(spent) * 1e9 / records


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=4000, help="of a block")
    parser.add_argument("--only", default="", help="expressions that contain this")
    args = parser.parse_args()
    print(f"{'':56} {'kernel':>8} {'python':>8}")
    for written, kind, data in values(args.records):
        for expression in re.split(r"\s{2,}", written.strip()):
            if args.only not in expression:
                continue
            loop = eval(f"lambda data: [{expression} for x in data]", SPACE)
            traced, schema = trace(eval(f"lambda x: {expression}", SPACE), None, 1).typed(kind)
            block = Columns(kind, [column_of(data, kind)], len(data))

            def kernel(result: Any = traced.result, schema: Any = schema, block: Columns = block) -> Columns:
                made = computed(result, schema, block)
                for leaf in made.leaves:
                    _ = leaf.data  # text and times are made when they are needed
                return made

            assert kernel().to_list() == loop(data), f"wrong result: {expression}"
            fast, slow = least(kernel, len(data)), least(lambda loop=loop, data=data: loop(data), len(data))
            print(f"{expression:56} {fast:8.1f} {slow:8.1f}{'  slower' if fast > slow else ''}", flush=True)


if __name__ == "__main__":
    main()

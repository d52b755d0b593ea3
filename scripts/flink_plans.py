"""Compares Funken's plans of Flink's table programs with Flink's own, by kind of difference.

    python scripts/flink_plans.py programs.json plans.json [--filter TEXT] [--kind operators] [-v]

The files are made from Flink's test jars (they are no part of this project): programs as ``flink_table_programs.py`` reads
them, and Flink's EXPLAIN with CHANGELOG_MODE of each of their statements. Kinds, in the order in which they are looked at: a plan
differs in the first of them that differs.

    refused     one of both does not plan the statement
    operators   other operators, or in another order; but for projections that only choose columns, and watermarks
    modes       the same operators, another changelog mode
    keys        the same operators and modes; inputs of joins with other unique keys, or another sink or rank strategy
    pushdown    as before; a scan reads other columns, filters, partitions, or has another watermark
    reuse       as before; other parts of the plan are shared
    text        as before; the text of an operator differs (names, order of columns, notation)
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from flink_table_programs import Phase, Run

KINDS = ("refused", "operators", "modes", "keys", "pushdown", "reuse", "text")
_LINE = re.compile(r"[\s:+|-]*(?=\w)")
_CHOICE = re.compile(r"Calc\(select=\[[\w$]+( AS [\w$]+)?(, [\w$]+( AS [\w$]+)?)*\](, changelogMode=\[[A-Z,]*\])?\)$")


def part(explained: str, title: str) -> list[str]:
    r"""Return the lines of a part of EXPLAIN.

    >>> part("== A ==\nx\n\n== B ==\ny\n", "B")
    ['y']
    """
    _, _, rest = explained.partition(f"== {title} ==\n")
    text = re.split(r"\n*^== ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return [line for line in text.splitlines() if line.strip()]


def operators(lines: list[str]) -> list[tuple[int, str, str]]:
    """Return depth, name and text of each operator; those that one mode of execution alone has count as the plain ones.

    >>> operators(["Calc(select=[a])", "+- Values(tuples=[[]])"])
    [(0, 'Calc', 'Calc(select=[a])'), (1, 'Values', 'Values(tuples=[[]])')]
    """
    found = []
    for line in lines:
        indent = _LINE.match(line)
        start = indent.end() if indent is not None else 0
        text = line[start:]
        found.append((start // 3, text.partition("(")[0], text))
    return found


def compact(found: list[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """Return operators without those whose place is a matter of taste.

    These are projections that only choose, rename and reorder columns, and watermarks: Flink may hand theirs to the source, which
    is compared as a pushdown. Asynchronous operators count as the plain ones.

    >>> compact(operators(["AsyncCalc(select=[f(a) AS b])", "+- Calc(select=[a AS c])", "   +- Values(tuples=[[]])"]))
    [(0, 'Calc', 'Calc(select=[f(a) AS b])'), (1, 'Values', 'Values(tuples=[[]])')]
    """
    made: list[tuple[int, str, str]] = []
    dropped: list[int] = []
    for depth, name, text in found:
        while dropped and dropped[-1] >= depth:
            dropped.pop()
        if name == "WatermarkAssigner" or (name == "Calc" and _CHOICE.match(text)):
            dropped.append(depth)
            continue
        made.append((depth - len(dropped), name.removeprefix("Async"), text.removeprefix("Async")))
    return made


def entry(text: str, name: str) -> str:
    """Return ``name=[..]`` of an operator's text, with its brackets balanced; empty if there is none.

    >>> entry("Scan(table=[[c, d, t, filter=[>(a, 1)]]], fields=[a])", "filter")
    'filter=[>(a, 1)]'
    """
    begin = text.find(f"{name}=[")
    if begin < 0:
        return ""
    depth, place = 0, begin + len(name) + 1
    for place in range(begin + len(name) + 1, len(text)):
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if not depth:
            break
    return text[begin : place + 1]


def differs(given: str, wanted: str) -> str:
    """Return the kind of the first difference of two plans; empty if they are equal."""
    one, other = (compact(operators(part(text, "Optimized Physical Plan"))) for text in (given, wanted))
    if [each[:2] for each in one] != [each[:2] for each in other]:
        return "operators"
    aspects: dict[str, tuple[str, ...]] = {
        "modes": ("changelogMode",),
        "keys": (
            "leftInputSpec",
            "rightInputSpec",
            "upsertMaterialize",
            "strategy",
            "conflictStrategy",
            "inputUpsertKey",
        ),
        "pushdown": ("project", "filter", "partitions", "watermark", "metadata", "limit"),
    }
    watermarks = [text.count("WatermarkAssigner") for text in (given, wanted)]
    for kind, names in aspects.items():
        for (_, _, mine), (_, _, theirs) in zip(one, other, strict=True):
            if any(entry(mine, name) != entry(theirs, name) for name in names):
                return kind
        if kind == "pushdown" and watermarks[0] != watermarks[1]:
            return kind
    shared = [re.findall(r"reuse_id|reference_id", text) for text in (given, wanted)]
    if shared[0] != shared[1]:
        return "reuse"
    return "" if [each[2] for each in one] == [each[2] for each in other] else "text"


def explained(program: dict[str, Any], step: dict[str, Any], batch: bool) -> str:
    """Return Funken's EXPLAIN of a statement."""
    with tempfile.TemporaryDirectory() as folder:
        given = [each.get("default_config") or {} for each in program["runners"]]
        config = {key: value for each in given for key, value in each.items()}
        runner = {"kind": "semantic", "mode": "batch" if batch else "streaming", "default_config": config}
        tables = Run(program, runner, "", folder).environment(Phase("before"))
        if step["kind"] == "statement_set":
            statements = tables.create_statement_set()
            for text in step["statements"]:
                statements.add_insert_sql(text)
            return str(statements.explain("CHANGELOG_MODE"))
        text = step.get("sql") or f"INSERT INTO `{step['sink']}` {step['sql_equivalent']}"
        return str(tables.explain_sql(text, "CHANGELOG_MODE"))


def compared(program: dict[str, Any], step: dict[str, Any], plan: dict[str, Any]) -> tuple[str, str]:
    """Return the kind of difference between the plans of a statement, and what shows it."""
    wanted = plan.get("explain")
    try:
        given = explained(program, step, wanted is not None and "changelogMode" not in wanted)
    except Exception as error:  # noqa: BLE001 - reported
        if wanted is None:
            return "", ""
        return "refused", f"{error}\n{traceback.format_exc(limit=-1)}"
    if wanted is None:
        return "refused", f"Flink: {plan.get('explain_error')}"
    kind = differs(given, wanted)
    title = "Optimized Execution Plan" if kind == "reuse" else "Optimized Physical Plan"
    lines = difflib.unified_diff(part(given, title), part(wanted, title), "Funken", "Flink", lineterm="", n=99)
    return kind, "\n".join(lines)


def main() -> int:
    """Compare, and report by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path)
    parser.add_argument("plans", type=Path)
    parser.add_argument("--filter", default="", help="only programs whose class or field contains this")
    parser.add_argument("--kind", choices=KINDS, help="show only differences of this kind")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the plans")
    args = parser.parse_args()
    plans = json.loads(args.plans.read_text())
    counts: Counter[str] = Counter()
    swaps: dict[str, list[str]] = defaultdict(list)
    for program in json.loads(args.programs.read_text())["programs"]:
        name = f"{program['class'].rsplit('.', 1)[-1]}.{program['field']}"
        if args.filter not in name or name not in plans:
            continue
        for step, plan in zip(program["run"], plans[name]["run"], strict=False):
            if not (step.get("sql") or step.get("statements") or step.get("sql_equivalent")) or not plan:
                continue
            kind, shown = compared(program, step, plan)
            counts[kind] += 1
            if kind and args.kind in (None, kind):
                print(f"{kind:10} {name}")
                if args.verbose:
                    print(shown + "\n")
            if kind == "operators":
                swaps[_swap(shown)].append(name)
    print("\n== by kind")
    for kind in ("", *KINDS):
        print(f"{counts[kind]:5} {kind or 'equal'}")
    print("\n== operators: Funken has more, and less")
    for swap, names in sorted(swaps.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(names):5} {swap}   e.g. {names[0]}")
    return 0


def _swap(shown: str) -> str:
    """Which operators one plan has and the other has not."""
    sides: dict[str, Counter[str]] = {"-": Counter(), "+": Counter()}
    for line in shown.splitlines()[3:]:
        if line[0] in sides:
            sides[line[0]][operators([line[1:]])[0][1]] += 1
    more, less = sides["-"] - sides["+"], sides["+"] - sides["-"]
    return f"+{_listed(more)} -{_listed(less)}"


def _listed(found: Counter[str]) -> str:
    return ",".join(f"{name}{'' if count == 1 else f'*{count}'}" for name, count in sorted(found.items())) or "order"


if __name__ == "__main__":
    sys.exit(main())

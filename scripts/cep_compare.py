"""Run random patterns on Flink's own automaton (Java) and on ours, and print every difference.

``make cep-compare SEEDS=2000 FIRST_SEED=0``. Flink comes as PyFlink's wheel into ``benchmarks/.envs``; a JDK of 17 or newer is
needed. ``--record FILE --seeds 100`` keeps tasks and Flink's results, for a test that needs no Java.

Cases that are not generated are in ``Generator``; docs/reference/cep-differences.md gives the reasons. One case of
each is in ``tests/cep/differences.jsonl``; ``--differences`` asks Flink about them again.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks" / "compare")]

import environments

from funken.cep.nfa import compile_pattern
from funken.errors import InvalidProgram
from tests.cep.exchange import Task, differences, pattern_of, run

LETTERS = "abcd"
SECONDS = 10
RULES = (
    "events that a NOT forbids", "NOT behind what may be empty", "NOT behind a NOT", "NOT behind a group",
    "NOT behind times of several lengths", "NOT of what the loop takes",
    "NOT before a group that may skip its head", "loop before a NOT at the end", "group at the head of a group",
    "quantifier at the head of a group", "group that may be empty", "repeated group that is not consecutive",
    "repeated group of one loop", "optional group that ends greedy", "optional behind a NOT in a group",
    "group in a group with until", "quantifiers in a group with until",
    "two windows", "bounds in groups", "bounds of times", "gap behind a greedy loop with until",
)  # fmt: skip
"""What is not generated; ``--lift`` generates it, to see what differs."""


class Generator:
    """Makes one random task from a seed; every method that leaves something out says what, and why."""

    def __init__(self, seed: int, lifted: Collection[str] = ()) -> None:
        self.random = random.Random(seed)
        self.lifted = lifted
        self.names = 0
        #: the letters that a part may take: after a NOT not those that it forbids. Flink emits a match although the event that
        #: completes it is forbidden, and discards one that the event does not complete; we discard both.
        self.letters = LETTERS

    def leaves_out(self, rule: str) -> bool:
        """Whether a rule of ``RULES`` holds."""
        assert rule in RULES
        return rule not in self.lifted

    def task(self) -> Task:
        """Return a task whose pattern both accept."""
        while True:
            self.names, self.letters = 0, LETTERS
            task = self._task()
            try:
                compile_pattern(pattern_of(task))
            except InvalidProgram:
                continue
            if self.nots_are_alike(task["pattern"]):
                return task

    def _task(self) -> Task:
        within = self.random.choice([0, 0, 0, 4, 6, 9])
        pattern = self.sequence(self.random.choice([1, 2, 2, 3, 3, 4]), Group(within))
        pattern = without_loop_before_the_end(pattern) if self.leaves_out("loop before a NOT at the end") else pattern
        timestamp, events = 0, []
        for _ in range(self.random.randint(5, 9)):
            timestamp += self.random.choice([0, 1, 1, 2, 3])
            events.append([self.random.choice(LETTERS), self.random.randint(0, 9), timestamp])
        names = [part["name"] for part in pattern if "group" not in part and not part["by"].startswith("not")]
        kind = self.random.choice(["none", "none", "next", "past", "first", "last"])
        skip = [kind, self.random.choice(names)] if kind in ("first", "last") and names else ["none"]
        if kind in ("next", "past"):
            skip = [kind]
        return {"pattern": pattern, "skip": skip, "within": within, "events": events, "end": timestamp + 20}

    def sequence(self, length: int, group: Group) -> list[Any]:
        """Return parts, as JSON."""
        parts: list[Any] = []
        while len(parts) < length:
            parts.append(self.part(parts, group))
        return parts

    def part(self, before: list[Any], group: Group) -> Any:
        """Return a part that may stand after those before."""
        ways = ["next", "next", "followed_by", "followed_by", "followed_by_any"]
        # Behind what may be empty, Flink fails with a NullPointerException.
        # A NOT behind ``not_followed_by`` disables that in Flink.
        empty = all(map(may_be_empty, before)) and self.leaves_out("NOT behind what may be empty")
        behind_not = before and before[-1]["by"] == "not_followed_by" and self.leaves_out("NOT behind a NOT")
        if before and not empty and not behind_not:
            ways.append("not_next")
            # Behind a group, Flink has it in force in the loops of the group, too.
            behind_group = "group" in before[-1] and self.leaves_out("NOT behind a group")
            if not behind_group and len(self.letters) > 1:
                ways.append("not_followed_by")
        by = self.random.choice(ways)
        part: Any = {"name": f"p{self.names}", "by": by}
        self.names += 1
        # A group at the head of a group has, in Flink, lost the contiguity of the group around it.
        head = group.depth and not before and self.leaves_out("group at the head of a group")
        if group.depth < 2 and not head and not by.startswith("not") and self.random.random() < 0.2:
            return self.group(part, group)
        if by == "not_followed_by":
            part["where"] = [["in", self.random.choice(self.letters)]]
            if self.leaves_out("events that a NOT forbids"):
                self.letters = self.letters.replace(part["where"][0][1], "")
            return part
        part["where"] = self.conditions()
        if self.random.random() < 0.1:
            part["or"] = ["in", self.random.choice(self.letters)]
        if by != "not_next":
            self.quantify(part)
            quantified_head = not before and group.depth and "times" in part
            if quantified_head and self.leaves_out("quantifier at the head of a group"):
                # In Flink, the first pattern of a group has the group's contiguity, also in its own quantifier.
                part["then"] = [*group.inner, *(each for each in part["then"] if each not in INNER)]
                if "allow_combinations" in part["then"] and "greedy" in part["then"]:
                    part["then"].remove("greedy")
            self.bound(part, before, group)
        return part

    def bound(self, part: Any, before: list[Any], group: Group) -> None:
        """Bound the time to the event before, maybe.

        Not with a window of the whole match: if both have ended, Flink names the time of the later one. Not in groups: in
        Flink, a loop that could end times out with its next round. Of a quantifier only for a loop: in Flink it depends
        on the names of the states which of the others are bounded, and the last event of ``times`` is not. Not behind a
        greedy loop with ``until``: there Flink forgets it.
        """
        if group.within and self.leaves_out("two windows"):
            return
        if group.depth and self.leaves_out("bounds in groups"):
            return
        loop = part.get("times", [0, 0])[1] is None
        other = "times" in part and not self.leaves_out("bounds of times")
        if (loop or other) and self.random.random() < 0.3:
            part["inner_within"] = self.random.randint(1, 4)
        forgotten = before and "until" in before[-1] and "greedy" in before[-1]["then"]
        forgotten = forgotten and self.leaves_out("gap behind a greedy loop with until")
        if "times" not in part and not forgotten and self.random.random() < 0.2:
            part["gap"] = self.random.randint(1, 4)

    def group(self, part: Any, around: Group) -> Any:
        """Make a part a group.

        One that may be empty is neither optional nor repeated: Flink emits matches several times, or never ends. One that
        is repeated any number of times is consecutive: else Flink emits a match twice, or lets an event lie before a
        strict pattern behind it. One with ``until`` has no groups in it, which in Flink do not know of it, and nothing
        that is quantified, where in Flink an event that fulfils it does not go on to the pattern behind. One that is
        optional does not end with a greedy part, which in Flink guards what follows also where the group was left out.
        One that is repeated cannot consist of one loop: there are many ways to divide its events, and who counts them how
        often is not defined. In none does an optional part follow ``not_followed_by``: in Flink the match ends with it.
        """
        self.quantify(part, group=True)
        least, most = part.get("times", [1, 1])
        if least != most and self.leaves_out("repeated group that is not consecutive"):
            part["then"] = ["consecutive", *(each for each in part["then"] if each not in INNER)]
        inner = [each for each in part["then"] if each in INNER]
        depth = 2 if "until" in part and self.leaves_out("group in a group with until") else around.depth + 1
        letters = self.letters
        while True:
            part["group"] = self.sequence(self.random.randint(1, 3), Group(around.within, depth, inner))
            if self.fits(part):
                return part
            self.letters = letters

    def fits(self, part: Any) -> bool:
        """Whether the group of a part is as ``group`` says."""
        inside = part["group"]
        optional, repeated = "optional" in part["then"] or part.get("times", [1])[0] == 0, "times" in part
        if (optional or repeated) and all(map(may_be_empty, inside)) and self.leaves_out("group that may be empty"):
            return False
        if any(a["by"] == "not_followed_by" and may_be_empty(b) for a, b in pairwise(inside)) and self.leaves_out(
            "optional behind a NOT in a group"
        ):
            return False
        if optional and ends_greedy(inside[-1]) and self.leaves_out("optional group that ends greedy"):
            return False
        if repeated and self.leaves_out("repeated group of one loop"):
            for each in inside:
                if "times" in each and all(may_be_empty(other) for other in inside if other is not each):
                    return False
        if "until" not in part or not self.leaves_out("quantifiers in a group with until"):
            return True
        return not any("times" in each or "optional" in each.get("then", ()) for each in inside)

    def conditions(self) -> list[Any]:
        """Return the conditions of a part."""
        letters = self.random.sample(self.letters, min(len(self.letters), self.random.choice([1, 2, 2, 3])))
        found: list[Any] = [["in", "".join(sorted(letters))]]
        if self.random.random() < 0.15:
            earlier = f"p{self.random.randint(0, self.names - 1)}"
            found.append(
                self.random.choice([["above_last", earlier], ["total_below", earlier, self.random.randint(8, 25)]])
            )
        return found

    def quantify(self, part: Any, group: bool = False) -> None:
        """Give a part a quantifier, maybe."""
        part["then"] = []
        if self.random.random() < 0.5:
            part["times"] = self.random.choice(
                [[1, None], [1, None], [2, None], [2, 2], [3, 3], [1, 2], [0, 2], [2, 3]]
            )
            inner = self.random.choice(["", "", *INNER])
            part["then"] += [inner] if inner else []
            if not group and inner != "allow_combinations" and self.random.random() < 0.3:
                part["then"].append("greedy")
            if part["times"][1] is None and self.random.random() < 0.25:
                part["until"] = ["in", self.random.choice(self.letters or "x")]
        if self.random.random() < 0.2 and part.get("times", [1])[0]:
            part["then"].append("optional")

    def nots_are_alike(self, parts: list[Any]) -> bool:
        """Whether both have every ``not_followed_by`` in force at the same events.

        In Flink, one behind ``times`` of different lengths, and one before a group that may skip its head, is forgotten in
        some states; and one that forbids what the loop before it takes does not hold for an event that completes the match.
        """
        for index, part in enumerate(parts):
            if not self.nots_are_alike(part.get("group", [])):
                return False
            if part["by"] != "not_followed_by":
                continue
            before, after = parts[index - 1], parts[index + 1 : index + 2]
            least, most = before.get("times", [1, 1])
            if least != most and most is not None and self.leaves_out("NOT behind times of several lengths"):
                return False
            taken = before.get("where", [["in", ""]])[0][1] + before.get("or", ["in", ""])[1]
            forbidden = "times" in before and part["where"][0][1] in taken
            if (
                forbidden
                and all(map(may_be_empty, parts[index + 1 :]))
                and self.leaves_out("NOT of what the loop takes")
            ):
                return False
            for each in after:
                skips = "group" in each and (
                    may_be_empty(each) or may_be_empty(each["group"][0]) or "optional" in each["then"]
                )
                if skips and self.leaves_out("NOT before a group that may skip its head"):
                    return False
        return True


INNER = ("consecutive", "allow_combinations")


@dataclass(frozen=True)
class Group:
    """What is around a part."""

    within: int
    depth: int = 0
    inner: Sequence[str] = ()


def without_loop_before_the_end(pattern: list[Any]) -> list[Any]:
    """Leave out a NOT at the end behind a loop, which Flink takes for some lengths only."""
    looping = len(pattern) > 1 and ("times" in pattern[-2] or "group" in pattern[-2])
    return pattern[:-1] if looping and pattern[-1]["by"] == "not_followed_by" else pattern


def ends_greedy(part: Any) -> bool:
    """Whether the last pattern of a part is greedy."""
    return ends_greedy(part["group"][-1]) if "group" in part else "greedy" in part.get("then", ())


def may_be_empty(part: Any) -> bool:
    """Whether a part may take no event. A loop of a group that may take none does not end in Flink."""
    if part["by"].startswith("not") or "optional" in part["then"] or part.get("times", [1])[0] == 0:
        return True
    return "group" in part and all(map(may_be_empty, part["group"]))


class Flink:
    """A process of Java that runs tasks; one that does not end is killed, and the next task begins another."""

    def __init__(self) -> None:
        environments.build("pyflink", lambda line: print(line, flush=True))
        self._command = [
            "java",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-cp",
            f"{environments.libraries()}/*",
            "bench.Patterns",
        ]
        self._java: subprocess.Popen[str] | None = None

    def run(self, task: Task) -> Any:
        """Return Flink's result for a task."""
        if self._java is None:
            self._java = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        java = self._java
        guard = threading.Timer(SECONDS, java.kill)
        guard.start()
        assert java.stdin
        assert java.stdout
        java.stdin.write(json.dumps(task) + "\n")
        java.stdin.flush()
        line = java.stdout.readline()
        guard.cancel()
        if line:
            return json.loads(line)
        self.close()
        return {"error": f"no result within {SECONDS} s"}

    def close(self) -> None:
        """End the process."""
        if self._java is not None:
            self._java.kill()
            self._java.communicate(timeout=30)
            self._java = None


DIFFERENCES = ROOT / "tests" / "cep" / "differences.jsonl"


def ask_again() -> int:
    """Renew what Flink and we make of the cases in which we differ; complain of one in which we do not."""
    flink, lines, equal = Flink(), [], 0
    for line in DIFFERENCES.read_text().splitlines():
        task = json.loads(line)
        result = flink.run(task)
        task["flink"], task["ours"] = result.get("steps", result.get("error")), run(task)
        if isinstance(task["flink"], list) and not differences(task["ours"], task["flink"]):
            equal += 1
            print(f"no difference: {task['difference']}", flush=True)
        lines.append(json.dumps(task))
    flink.close()
    DIFFERENCES.write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {equal} of which do not differ")
    return int(equal > 0)


def lift(rules: str, seeds: range, wanted: int) -> None:
    """Generate what rules leave out, and tell how many of the patterns that they concern differ."""
    flink, tried, differ, example = Flink(), 0, 0, ""
    names = [each.strip() for each in rules.split(",")]
    for seed in seeds:
        task = Generator(seed, names).task()
        if task == Generator(seed).task():
            continue
        result = flink.run(task)
        found = (
            [result["error"][:100]] if "error" in result else differences(run(task, result["steps"]), result["steps"])
        )
        tried, differ = tried + 1, differ + bool(found)
        example = example or (f"\n  {found[0][:300]}\n  {json.dumps(task)}" if found else "")
        if tried == wanted:
            break
    flink.close()
    print(f"{rules}: of {tried} patterns that it concerns, {differ} differ{example}", flush=True)


def main() -> int:
    """Run; return how the shell is to see it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of them")
    parser.add_argument("--record", type=Path, help="a file for the tasks and Flink's results")
    parser.add_argument("--differences", action="store_true", help="ask Flink about the cases in which we differ")
    parser.add_argument("--lift", help="generate what RULES leave out: names, or 'all', one by one")
    parser.add_argument("--wanted", type=int, default=50, help="how many patterns that a lifted rule concerns")
    arguments = parser.parse_args()
    if arguments.differences:
        return ask_again()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    if arguments.lift:
        for rule in RULES if arguments.lift == "all" else [arguments.lift]:
            lift(rule, seeds, arguments.wanted)
        return 0
    tasks = [Generator(seed).task() for seed in seeds]
    failing, refused, matches, lines = 0, 0, 0, []
    flink = Flink()
    for seed, task in zip(seeds, tasks, strict=True):
        result = flink.run(task)
        if "error" in result:
            refused += 1
            print(f"seed {seed}: Flink: {result['error'][:200]}\n  {json.dumps(task)}", flush=True)
            continue
        theirs = result["steps"]
        matches += sum(len(step[0]) for step in theirs)
        found = differences(run(task, theirs), theirs)
        if found:
            failing += 1
            print(f"seed {seed}: {found[0]}\n  {json.dumps(task)}", flush=True)
        lines.append(json.dumps({**task, "steps": theirs}))
    flink.close()
    if arguments.record:
        arguments.record.write_text("\n".join(lines) + "\n")
    print(f"{len(tasks)} patterns, {matches} matches; {failing} differ, {refused} that Flink could not run")
    return 1 if failing or refused else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Random patterns against the definition of a match: all ways to choose events, filtered by what may lie between them.

The oracle knows sequences of patterns with every contiguity, ``times``, loops, ``optional`` and both NOTs. An event is a
letter; a pattern takes a set of letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from funken.cep import Pattern
from funken.cep.nfa import Nfa, compile_pattern

APPEND = {
    "strict": Pattern.next,
    "relaxed": Pattern.followed_by,
    "any": Pattern.followed_by_any,
    "not next": Pattern.not_next,
    "not follow": Pattern.not_followed_by,
}


@dataclass(frozen=True)
class Element:
    letters: str
    contiguity: str
    low: int = 1
    high: int | None = 1
    inner: str = "relaxed"
    optional: bool = False


def one_of(letters: str):
    return lambda event: event[1] in letters


def built(elements: list[Element]) -> Pattern:
    pattern = None
    for index, each in enumerate(elements):
        pattern = Pattern.begin(f"p{index}") if pattern is None else APPEND[each.contiguity](pattern, f"p{index}")
        pattern = pattern.where(one_of(each.letters))
        if (each.low, each.high) != (1, 1):
            pattern = pattern.times_or_more(each.low) if each.high is None else pattern.times(each.low, each.high)
            pattern = pattern.consecutive() if each.inner == "strict" else pattern
            pattern = pattern.allow_combinations() if each.inner == "any" else pattern
        pattern = pattern.optional() if each.optional else pattern
    return pattern


def allowed(word: str, before: int | None, at: int, contiguity: str, letters: str) -> bool:
    if word[at] not in letters:
        return False
    if before is None or contiguity == "any":
        return True
    between = word[before + 1 : at]
    return not between if contiguity == "strict" else not any(each in letters for each in between)


def expected(elements: list[Element], word: str) -> Iterator[tuple[tuple[str, int], ...]]:
    def extend(index, taken, nots):
        """``nots``: pairs (letters, position from which on they are forbidden until an event is taken)."""
        if index == len(elements):
            if taken:
                yield taken
            return
        each, before = elements[index], taken[-1][1] if taken else None
        if each.contiguity == "not next":
            forbidden = word[before + 1 : before + 2]
            if forbidden and forbidden not in each.letters:
                yield from extend(index + 1, taken, nots)
            return
        if each.contiguity == "not follow":
            name = taken[-1][0]
            start = next(position for who, position in taken if who == name)
            yield from extend(index + 1, taken, [*nots, (each.letters, start)])
            return
        if each.optional:
            yield from extend(index + 1, taken, nots)
        high = len(word) if each.high is None else each.high

        def repeat(count, taken, nots):
            before = taken[-1][1] if taken else None
            if count >= each.low:
                yield from extend(index + 1, taken, nots)
            behind = elements[index + 1 : index + 2]
            forbidden = behind[0].letters if behind and behind[0].contiguity == "not next" else ""
            if count >= each.low and set(word[before + 1 : before + 2]) & set(forbidden):
                return  # where the loop may end, the NOT ends longer ones too, as in Flink
            if count == high:
                return
            contiguity = each.inner
            for at in range(0 if before is None else before + 1, len(word)):
                clean = not any(set(word[start + 1 : at + 1]) & set(letters) for letters, start in nots)
                if clean and allowed(word, before, at, contiguity, each.letters):
                    yield from repeat(count + 1, (*taken, (f"p{index}", at)), [])

        # A round of zero events is the case above.
        for at in range(0 if before is None else before + 1, len(word)):
            clean = not any(set(word[start + 1 : at + 1]) & set(letters) for letters, start in nots)
            if clean and allowed(word, before, at, each.contiguity, each.letters):
                yield from repeat(1, (*taken, (f"p{index}", at)), [])

    yield from extend(0, (), [])


def actual(elements: list[Element], word: str) -> Counter:
    nfa = Nfa(compile_pattern(built(elements)))
    state, found = nfa.initial, Counter()
    masks = nfa.masks(list(enumerate(word)))
    assert masks is not None
    for index, letter in enumerate(word):
        state, matches = nfa.process(state, (index, letter), index, 0, masks[index])
        for match in matches:
            found[tuple((name, event[0]) for name, events in match.items() for event in events)] += 1
    return found


LETTERS = st.sets(st.sampled_from("abc"), min_size=1, max_size=2).map(lambda found: "".join(sorted(found)))
QUANTIFIERS = st.sampled_from([(1, 1), (1, 1), (2, 2), (1, 2), (1, None), (2, None)])


@st.composite
def sequences(draw) -> list[Element]:
    found: list[Element] = []
    for index in range(draw(st.integers(1, 4))):
        low, high = draw(QUANTIFIERS)
        contiguity = draw(st.sampled_from(["strict", "relaxed", "any"]))
        after_not = bool(found) and found[-1].contiguity.startswith("not")
        element = Element(
            draw(LETTERS), contiguity, low, high, draw(st.sampled_from(["strict", "relaxed", "any"])),
            # What follows a NOT takes an event: else the match is complete before the NOT has seen one.
            optional=not after_not and draw(st.booleans()),
        )  # fmt: skip
        found.append(element)
        if index < 3 and not element.optional and not after_not and draw(st.integers(0, 3)) == 0:
            found.append(Element(draw(LETTERS), draw(st.sampled_from(["not next", "not follow"]))))
    if found[-1].contiguity == "not follow":
        found[-1] = replace(found[-1], contiguity="not next")
    return found


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(sequences(), st.text("abc", min_size=1, max_size=6))
def test_matches_are_those_of_the_definition(elements, word):
    assert actual(elements, word) == Counter(expected(elements, word))

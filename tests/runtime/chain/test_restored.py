"""Keys that are compared with restored ones: a warning only where none of them can be one of the program's."""

from decimal import Decimal

import pytest

from funken.state.key_kinds import alike, kind_of_key


@pytest.mark.parametrize(
    ("restored", "now", "expected"),
    [
        (1, 2, True),
        (1, 2.5, True),
        (Decimal(1), True, True),
        (1, "1", False),
        ("a", b"a", False),
        (1, None, True),
        ((1, "a"), (None, "b"), True),
        ((1, None), (2, "b"), True),
        ((1, "a"), ("b", None), False),
        ((1, 2), (1, 2, 3), False),
        ((1, (2, None)), (1, (3, "x")), True),
        ((1, (2, "x")), (1, 3), False),
    ],
)
def test_keys_are_alike_if_one_program_may_give_both(restored, now, expected):
    assert alike(kind_of_key(restored), kind_of_key(now)) is expected
    assert alike(kind_of_key(now), kind_of_key(restored)) is expected

"""Random functions of the traced subset: kernels give what Python gives. ``make fuzz-vectorized`` runs more of them."""

import warnings

import pytest

from funken.columnar.kernels import numbers as number_forms
from funken.columnar.kernels import text_forms
from funken.columnar.kernels.rowwise import kernel_of
from tests.support.traced.functions import FunctionFuzzer

CASES, PART = 300, 60


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_kernels_give_what_python_gives_for_random_functions(first: int) -> None:
    fuzzer = FunctionFuzzer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of functions that compare text with numbers
        found = [difference for case in range(first, first + PART) if (difference := fuzzer.run(case))]

    assert not found, "\n".join(f"{case}: {fact}\n{source}" for case, source, fact in found)
    assert (
        fuzzer.counts["columns"] > PART * 0.8
    )  # of two blocks per function; the others raise, may differ, or are not read
    assert fuzzer.counts["rows: it raises"]


def test_a_kernel_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_of.cache_clear()
    monkeypatch.setattr(number_forms, "rounded_to", number_forms._whole(lambda data: (data + 0.5) // 1))
    monkeypatch.setattr(text_forms, "is_ascii", lambda array: True)
    fuzzer = FunctionFuzzer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = any(fuzzer.run(case) for case in range(PART * 2))
    kernel_of.cache_clear()
    assert found

import pickle

import pytest

from funken.operators.base import OutputTag
from funken.operators.user_functions import Results


@pytest.mark.parametrize("tag_id", ["", None])
def test_s61_an_empty_tag_id_is_refused(tag_id):
    with pytest.raises(ValueError, match="cannot be None or empty"):
        OutputTag(tag_id)


def test_tags_are_equal_by_id():
    assert OutputTag("a", "INT") == OutputTag("a")
    assert len({OutputTag("a", ["unhashable"]), OutputTag("a"), OutputTag("b")}) == 2
    assert pickle.loads(pickle.dumps(OutputTag("a", "INT"))) == OutputTag("a")


class Sent:
    def __init__(self):
        self.main, self.sides = [], []

    def emit(self, values, timestamps):
        self.main.append((values, timestamps))

    def emit_side(self, tag_id, values, timestamps):
        self.sides.append((tag_id, values, timestamps))


def test_s61_only_a_tuple_that_begins_with_a_tag_is_a_side_output():
    results, sent = Results(), Sent()
    made = [(OutputTag("a"), 1), ("plain", 2), (), [OutputTag("a"), 3], "ab", OutputTag("b")]
    results.take(made, at=5)
    results.take(None, at=6)
    results.emit(sent, stamped=True)
    assert sent.main == [([("plain", 2), (), [OutputTag("a"), 3], "ab", OutputTag("b")], [5] * 5)]
    assert sent.sides == [("a", [1], [5])]


def test_results_are_sent_once():
    results, sent = Results(), Sent()
    results.take([1, (OutputTag("a"), 2)], at=0)
    results.emit(sent, stamped=False)
    results.emit(sent, stamped=False)
    assert sent.main == [([1], None)]
    assert sent.sides == [("a", [2], None)]

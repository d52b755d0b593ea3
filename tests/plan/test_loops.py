"""Which vertices are in a loop, against the definition: both can be reached from each other."""

from hypothesis import given
from hypothesis import strategies as st

from funken.plan.physical import components
from funken.testing import local

ARCS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14)


def reached(vertex, arcs):
    found, before = set(), None
    while found != before:
        before = set(found)
        found |= {target for source, target in arcs if source == vertex or source in found}
    return found


@given(arcs=ARCS)
def test_two_vertices_share_a_loop_if_each_is_reached_from_the_other(arcs):
    found = components(arcs)
    for one in range(8):
        assert (one in found) == (one in reached(one, arcs))
        for other in range(8):
            together = other in reached(one, arcs) and one in reached(other, arcs)
            assert (one in found and found[one] == found.get(other)) == together


def test_edges_in_a_loop_are_known_and_heads_are_roots_unless_they_are_inside_another():
    outer = local([1]).iterate()
    inner = outer.map(abs).rebalance().iterate()
    less = inner.key_by(abs).reduce(min)
    inner.close_with(less.filter(lambda n: n > 5))
    outer.close_with(less.rebalance())
    less.rebalance().map(str).print()
    plan = less.get_execution_environment().compile()

    assert [(head.vertex.nodes[0].name, head.root) for head in plan.heads] == [("iterate", True), ("iterate", False)]
    assert len({head.loop for head in plan.heads}) == 1
    into, out = plan.edges[0], next(edge for edge in plan.edges if plan.vertices[edge.target].name == "map -> print")
    assert into.loop is None and out.loop is None
    assert all(edge.loop is not None for edge in plan.edges if edge.feedback)
    assert sum(edge.feedback for edge in plan.edges) == 2


def test_a_program_that_goes_on_after_it_was_executed_has_its_loop_again():
    loop = local([3]).iterate()
    less = loop.map(lambda n: n - 1)
    loop.close_with(less.filter(lambda n: n > 0))
    assert less.execute_and_collect(limit=9) == [2, 1, 0]
    assert less.map(str).execute_and_collect(limit=9) == ["2", "1", "0"]

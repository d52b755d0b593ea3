"""The step of an iteration: what depends on the loop (the dynamic path), and what is computed once (the constant path)."""

from __future__ import annotations

from collections.abc import Iterable

from funken.dataset.plan.nodes import Node, walk


def dynamic_nodes(roots: Iterable[Node], placeholders: Iterable[Node]) -> frozenset[int]:
    """Return the identities of the nodes that depend on one of the placeholders, and of these.

    >>> from funken.dataset.plan import nodes
    >>> start = nodes.Placeholder(id=0, name="partial solution", role=nodes.Role.PARTIAL_SOLUTION)
    >>> step = nodes.Union(id=1, name="union", inputs=(start, nodes.SourceNode(id=2, name="source", format="")))
    >>> dynamic_nodes([step], [start]) == {id(start), id(step)}
    True
    """
    found = {id(placeholder) for placeholder in placeholders}
    for node in walk(roots):
        if any(id(parent) in found for parent in node.parents):
            found.add(id(node))
    return frozenset(found)


def static_nodes(roots: Iterable[Node], dynamic: frozenset[int]) -> tuple[Node, ...]:
    """Return the constant nodes that the dynamic path reads, each once."""
    roots = list(roots)
    found: dict[int, Node] = {id(root): root for root in roots if id(root) not in dynamic}
    for node in walk(roots):
        if id(node) in dynamic:
            found.update({id(parent): parent for parent in node.parents if id(parent) not in dynamic})
    return tuple(found.values())

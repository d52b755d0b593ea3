"""A program as a graph of nodes, and what is compiled from it: vertices, edges and stages. Data only.

``rules/`` rewrites a plan. May import ``operators``, ``columnar`` and what is below.
"""

"""A program as a graph of nodes, and its compiled form: vertices, edges and stages. Data only.

``rules/`` rewrites a plan. May import ``operators``, ``columnar`` and what is below.
"""

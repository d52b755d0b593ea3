"""Flink's SQL: its dialect of sqlglot, the statements around queries, and the binder that makes a logical plan of a query.

May import the nodes of plans, catalogs and types of ``table``, ``cep`` at the call, ``expr``, and lower rooms. sqlglot
comes with the extra ``sql``.
"""

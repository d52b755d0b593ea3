"""Tables of SQL over connectors: what ``'connector' = '...'`` and its options mean, and which changes come from or go there.

May import ``api``, ``connectors`` and lower rooms, and of ``table`` its types.
"""

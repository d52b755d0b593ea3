"""Tables at work: blocks of rows with kinds, how they travel, and the operators that take and give them.

May import ``table`` (its types and plans), ``expr``, ``cep``, ``operators`` and what is below; nothing of the front ends.
"""

"""Functions of keyed streams that keep state: what they declare, what they give, and what becomes of their state.

``opening.py`` reads ``open()``, ``tracing.py`` with ``uses.py`` the functions; ``traced.py`` is what was
read. ``typed.py`` knows the records; ``steps.py`` finds an order in which the state before each record can be computed.
Nothing here loads NumPy. May import ``state`` and the rest of ``columnar``.
"""

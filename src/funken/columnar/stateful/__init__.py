"""Functions with keyed state: their declared states, their emitted records, and the changes of their state.

``tracing.py`` reads ``open()`` and the functions, ``changes.py`` has the changes of each state. ``typed.py`` adds types, and an
order in which kernels can compute the state before each record.
Nothing here loads NumPy. May import ``state`` and the rest of ``columnar``.
"""

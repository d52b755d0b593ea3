"""The function objects that users write, and the one place where a callable becomes a ``UserFunction``.

May import ``operators`` and what is below.
"""

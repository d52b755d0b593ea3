"""The command line: ``funken``, or ``python -m funken``.

May import everything.
"""

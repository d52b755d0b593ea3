"""How programs of the command line begin and end: in this process first, in a session that is there, with a savepoint.

May import the public surface, ``cli`` and what is below.
"""

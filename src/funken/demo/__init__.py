"""``funken demo``: words of a text in windows, or payments whose results can be checked while workers are killed.

May import the public surface, ``cli`` and what is below.
"""

"""Programs written for other engines.

May import everything but ``cli``.
"""

"""The algorithms of the library: their parameters, and what they give. What they do to arrays is in ``graph.columns``.

May import the rest of ``funken.graph``; imports ``columns`` inside of methods only.
"""

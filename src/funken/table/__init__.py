"""SQL and the Table API: tables over streams, whose results are changelogs.

May import everything but the command line, the testing tools, the compatibility layer and the libraries.
"""

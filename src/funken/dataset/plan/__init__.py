"""The program as data: keys, record types and logical operators. Nothing here runs or chooses.

May import the public surface.
"""

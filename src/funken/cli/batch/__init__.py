"""What the command line shows of batch programs.

May import what ``cli`` may.
"""

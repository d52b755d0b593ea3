"""The command line: ``funken``, or ``python -m funken``."""

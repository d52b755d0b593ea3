"""``python -m funken`` is ``funken``, and so is this file, which ``spark-submit`` runs."""

import os
import sys

if not __package__ and sys.path[:1] == [os.path.dirname(os.path.realpath(__file__))]:
    del sys.path[0]  # the folder of a file that is run comes first; this one has modules with names of Python's own

from funken.cli.main import main

if __name__ == "__main__":
    main(prog_name="funken")

"""``python -m funken`` is ``funken``."""

from funken.cli.main import main

if __name__ == "__main__":
    main(prog_name="funken")

"""Write the reference pages that follow from the code: ``python scripts/gen_reference.py``.

A test fails while a page differs from what this writes.
"""

from pathlib import Path

from funken import config
from funken.config import flink

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"

HEADER = """\
# Options

Every option of a [`Configuration`](../guide/running.md#options), in this order of precedence: what the program sets,
then `funken run -D KEY=VALUE`, then the default. An unknown key is an error that names the nearest known one, and so is
a value of the wrong type or out of range. [Options of Flink without effect](#options-of-flink-without-effect) are accepted
with a warning, so that the configuration of a ported job does not fail. Options of Spark are set where the session is
made. A duration is a `timedelta`, a number of milliseconds, or text such as `"50 ms"`, `"5 s"`, `"1 min"`.

This page is written by `scripts/gen_reference.py`.

| option | default | meaning |
|---|---|---|
"""


FLINK = """
## Options of Flink without effect

These options of Flink 1.20 to 2.3 may be set, and a warning says `option ... has no effect here because ...`. `*` stands
for any name.
"""


def options_page() -> str:
    """Return ``docs/reference/options.md``."""
    rows = []
    for option in config.options():
        default = f"`{option.default}`" if option.default not in ("", {}, ()) else ""
        rows.append(f"| `{option.key}` | {default} | {option.doc.replace('|', '/')} |\n")
    groups = [
        f"\n**{reason[:1].upper()}{reason[1:]}:**\n\n" + "\n".join(f"`{key}`" for key in keys) + "\n"
        for reason, keys in flink.groups()
    ]
    return HEADER + "".join(rows) + FLINK + "".join(groups)


PAGES = {"options.md": options_page}

if __name__ == "__main__":
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")

"""Write the reference pages that follow from the code: ``python scripts/gen_reference.py``.

A test fails while a page differs from what this writes.
"""

from pathlib import Path

from funken import config

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"

HEADER = """\
# Options

Every option of a [`Configuration`](../guide/running.md#options), in this order of precedence: what the program sets,
then `funken run -D KEY=VALUE`, then the default. An unknown key is an error that names the nearest known one; keys of
Flink's own runtime (`taskmanager.*`, `jobmanager.*`, `state.*`, ...) are accepted and have no effect, so that a ported
job runs. A duration is a `timedelta`, a number of milliseconds, or text such as `"50 ms"`, `"5 s"`, `"1 min"`.

This page is written by `scripts/gen_reference.py`.

| option | default | meaning |
|---|---|---|
"""


def options_page() -> str:
    """Return ``docs/reference/options.md``."""
    rows = []
    for option in config.options():
        default = f"`{option.default}`" if option.default not in ("", {}) else ""
        rows.append(f"| `{option.key}` | {default} | {option.doc.replace('|', '/')} |\n")
    return HEADER + "".join(rows)


PAGES = {"options.md": options_page}

if __name__ == "__main__":
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")

"""Options of connectors: each acts, or says that it does not."""

import logging
import re
from pathlib import Path

import pytest

import funken.table.connectors as room
from funken.table.connectors import databases, filesystem, formats, kafka, kinesis, lakes, services
from funken.table.connectors.options import ConnectorOption, OptionValues, integer

SOURCES = "\n".join(path.read_text() for path in Path(room.__file__).parent.glob("*.py"))
ONE_VALUE = {
    "encoding", "decoding.plugin.name", "basic-auth.credentials-source", "bearer-auth.credentials-source",
    "partition.time-extractor.kind",
}  # fmt: skip
"""There is nothing to choose."""


def declared():
    for module in (databases, filesystem, formats, kafka, kinesis, lakes, services):
        found = list(vars(module).values())
        while found:
            each = found.pop()
            if isinstance(each, ConnectorOption):
                yield each
            elif isinstance(each, tuple | list):
                found += each
            elif isinstance(each, dict):
                found += each.values()


def is_refused(option):
    try:
        option.parse("a value")
    except Exception as error:  # noqa: BLE001 - others have parsers with errors of their own
        return str(error).startswith("it is not supported: ")
    return False


@pytest.mark.parametrize("option", sorted({each.key: each for each in declared()}.values(), key=lambda each: each.key))
def test_an_option_is_read_or_says_why_not(option):
    if option.unused or is_refused(option) or option.key in ONE_VALUE or ".*" in option.key or "#" in option.key:
        return
    # Those of both ends of a scan are read by one text: scan.{which}.timestamp-millis.
    key = re.sub(r"^scan\.(startup|bounded)\.(?=timestamp-millis|specific-offsets)", "", option.key)
    elsewhere = SOURCES.replace(f'ConnectorOption("{option.key}"', "")
    assert re.search(rf"[\"'.]{re.escape(key)}[\"']", elsewhere)


def test_an_option_without_effect_is_said_once(caplog):
    option = ConnectorOption("sink.tries", integer, 3, "the job restarts")
    with caplog.at_level(logging.WARNING):
        for tries in ("3", "5", "5"):
            assert OptionValues("shop.orders", {"sink.tries": tries}, (option,))["sink.tries"] == int(tries)

    assert [record.getMessage() for record in caplog.records] == [
        "option 'sink.tries' of table 'shop.orders' has no effect here: the job restarts"
    ]

"""A file that is one JSON array, read as JSON lines: told with what to do instead."""

import json
import logging
from dataclasses import dataclass

import pytest

from funken import FileSource, StreamExecutionEnvironment
from funken.connectors import JsonSchema
from funken.connectors.files.line_files import LineFormat
from funken.errors import MessageMalformed

ORDERS = [{"shop": "north", "total": 1}, {"shop": "south", "total": 2}]
READ_OTHERWISE = r"into a line of its own, or, if the file is one array, read the file with json\.load\(\)"


@dataclass(frozen=True)
class Order:
    shop: str
    total: int


def read(path, schema):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    return env.from_source(FileSource.for_format(LineFormat(schema), path).build()).execute_and_collect(limit=9)


@pytest.mark.parametrize("schema", [JsonSchema(), JsonSchema(Order)], ids=["any", "declared"])
@pytest.mark.parametrize("indent", [0, 2])
@pytest.mark.parametrize("document", [ORDERS, ORDERS[0]], ids=["array", "object"])
def test_a_document_of_several_lines_is_told(tmp_path, schema, indent, document):
    path = tmp_path / "orders.json"
    path.write_text(json.dumps(document, indent=indent))
    with pytest.raises(MessageMalformed, match=READ_OTHERWISE):
        read(path, schema)


def test_an_array_in_one_line_is_no_record_of_a_declared_type(tmp_path):
    path = tmp_path / "orders.json"
    path.write_text(json.dumps(ORDERS))
    with pytest.raises(MessageMalformed, match=f"it is no object, but list.*{READ_OTHERWISE}"):
        read(path, JsonSchema(Order))


def test_an_array_in_one_line_is_a_record_that_is_warned_of(tmp_path, caplog):
    path = tmp_path / "orders.json"
    path.write_text(json.dumps(ORDERS))
    with caplog.at_level(logging.WARNING):
        assert read(path, JsonSchema()) == [ORDERS]
    assert "a line with an array of 2 objects, which is one record" in caplog.text


@pytest.mark.parametrize("text", ["[1, 2]\n", '{"a": 1}\n', '[{"a": 1}]\n[{"a": 2}]\n', "\n"])
def test_other_lines_are_not_warned_of(tmp_path, caplog, text):
    path = tmp_path / "lines.json"
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert read(path, JsonSchema()) == [json.loads(line) for line in text.split("\n") if line]
    assert caplog.text == ""


def test_other_malformed_lines_have_the_usual_remedy(tmp_path):
    path = tmp_path / "lines.json"
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(MessageMalformed, match="correct the schema, or set MalformedRecordPolicy.SKIP or EMIT"):
        read(path, JsonSchema())

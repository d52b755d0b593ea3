"""Declarations: what they print, and which are equal."""

import pickle

import pytest

from funken.errors import InvalidProgram
from funken.types import Types
from funken.types.info import declared

SIMPLE = {
    Types.STRING(): "String", Types.BYTE(): "Byte", Types.BOOLEAN(): "Boolean", Types.SHORT(): "Short",
    Types.INT(): "Integer", Types.LONG(): "Long", Types.FLOAT(): "Float", Types.DOUBLE(): "Double",
    Types.CHAR(): "Char", Types.BIG_INT(): "BigInteger", Types.BIG_DEC(): "BigDecimal", Types.INSTANT(): "Instant",
    Types.SQL_DATE(): "DateTypeInfo", Types.SQL_TIME(): "TimeTypeInfo", Types.SQL_TIMESTAMP(): "TimestampTypeInfo",
    Types.PICKLED_BYTE_ARRAY(): "PickledByteArrayTypeInfo",
    Types.PRIMITIVE_ARRAY(Types.INT()): "PrimitiveArrayTypeInfo<Integer>",
    Types.BASIC_ARRAY(Types.INT()): "BasicArrayTypeInfo<Integer>",
    Types.OBJECT_ARRAY(Types.STRING()): "ObjectArrayTypeInfo<String>",
    Types.LIST(Types.INT()): "ListTypeInfo<Integer>",
    Types.MAP(Types.STRING(), Types.INT()): "MapTypeInfo<String, Integer>",
    Types.TUPLE([Types.STRING(), Types.INT()]): "TupleTypeInfo(String, Integer)",
    Types.ROW([Types.STRING(), Types.INT()]): "RowTypeInfo(String, Integer)",
    Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LONG()]): "RowTypeInfo(a: String, b: Long)",
}  # fmt: skip


@pytest.mark.parametrize("info", SIMPLE, ids=str)
def test_declarations_print_and_compare_as_pyflinks_do(info):
    assert repr(info) == SIMPLE[info]
    assert pickle.loads(pickle.dumps(info)) == info
    assert [other for other in SIMPLE if other == info] == [info]


def test_rows_compare_by_the_types_of_their_fields():
    assert Types.ROW_NAMED(["a"], [Types.INT()]) == Types.ROW([Types.INT()])
    assert Types.ROW([Types.INT()]) != Types.TUPLE([Types.INT()])


def test_a_row_type_knows_its_fields():
    named, plain = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), Types.ROW([Types.INT()])

    assert named.get_field_names() == ["a", "b"]
    assert named.get_field_types() == [Types.INT(), Types.STRING()]
    assert named.get_field_index("b") == 1
    assert plain.get_field_names() == ["f0"]
    assert plain.get_field_index("f0") == -1


def test_what_is_no_type_is_refused():
    with pytest.raises(TypeError, match=r"Types.TUPLE\(\) takes types such as"):
        Types.TUPLE([int])
    with pytest.raises(ValueError, match="2 names"):
        Types.ROW_NAMED(["a", "b"], [Types.INT()])
    with pytest.raises(TypeError, match="a type is declared with Types"):
        declared(int)
    with pytest.raises(InvalidProgram, match="no Java counterpart"):
        Types.INT().get_java_type_info()


def test_a_list_of_types_declares_a_row():
    assert declared([Types.INT()]) == Types.ROW([Types.INT()])
    assert declared(Types.PICKLED_BYTE_ARRAY()) is None

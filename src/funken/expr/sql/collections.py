"""Arrays, maps and rows: construction, access, and functions over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from funken.expr.ir import Call, Literal, Node
from funken.expr.rules import EvaluationError, FunctionRule, InvalidCall, Nulls
from funken.expr.sql.calls import (
    bound,
    cast,
    function,
    no_match,
    nullable_of,
    of_columns,
    operator_text,
    per_value,
    refuse,
)
from funken.expr.sql.casts import castable
from funken.expr.sql.operators import leading_type
from funken.expr.sql.patterns import regular_expression
from funken.expr.sql.types import (
    STRING,
    ArrayType,
    BooleanType,
    IntegralType,
    IntType,
    LogicalType,
    MapType,
    NullType,
    RowField,
    RowType,
    StructuredType,
    VariantType,
    common_type,
    is_text,
)
from funken.expr.sql.values import key_of

_GROUP = "collections"
C = Nulls.CUSTOM
Inferred = tuple[Sequence[Node], LogicalType]


# -- constructors


def _common(name: str, nodes: Sequence[Node]) -> LogicalType:
    found = leading_type([each.type for each in nodes])
    if found is None:
        raise refuse(name, nodes, (), "Parameters must be of the same type: there is no common type.")
    return found


def _array_inference(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
    if not args:
        raise refuse("ARRAY", args, ("ARRAY[<COMMON>...]",), "Require at least 1 argument.")
    element = _common("ARRAY", args)
    return [cast(each, element) for each in args], ArrayType(element, is_nullable=False)


def _map_inference(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
    if not args or len(args) % 2:
        raise refuse("MAP", args, ("MAP[<KEY>, <VALUE>...]",), "Map requires an even number of arguments, at least 2.")
    key, value = _common("MAP", args[::2]), _common("MAP", args[1::2])
    fitted = [cast(each, value if at % 2 else key) for at, each in enumerate(args)]
    return fitted, MapType(key, value, is_nullable=False)


def _row_inference(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
    names = options.get("names") or [f"EXPR${at}" for at in range(len(args))]
    fields = tuple(RowField(name, each.type) for name, each in zip(names, args, strict=True))
    return args, RowType(fields, is_nullable=False)


def pairs_of(keys: Sequence[Any], values: Sequence[Any], type_: MapType) -> list[tuple[Any, Any]]:
    """Return the pairs of a map: of equal keys the last one's value, at the first one's place."""
    found: dict[Any, tuple[Any, Any]] = {}
    for key, value in zip(keys, values, strict=True):
        found[key_of(key, type_.key)] = (key, value)
    return list(found.values())


def _map(call: Call, evaluator: Any) -> Callable[..., Any]:
    type_ = call.type
    return lambda *values: pairs_of(values[::2], values[1::2], type_)


# -- access


def _item_inference(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
    signature = ("<ARRAY>[<INTEGER>]", "<MAP>[<KEY>]", "<ROW>[<INTEGER> | <CHARACTER_STRING>]")
    if len(args) != 2:
        raise refuse("ITEM", args, signature)
    value, index = args
    match value.type:
        case ArrayType(element=element):
            return _array_item(value, index, element, signature)
        case MapType(key=key, value=item):
            return [value, _map_key(index, key, args, signature)], item.nullable()
        case VariantType():
            if not is_text(index.type) and not isinstance(index.type, IntegralType):
                forms = (
                    "<ARRAY>[<INTEGER>]\n<MAP>[<ANY>]\n<ROW>[<CHARACTER>|<INTEGER>]\n<VARIANT>[<CHARACTER>|<INTEGER>]"
                )
                shown = ", ".join(f"<{operator_text(each.type)}>" for each in args)
                raise InvalidCall(
                    f"Cannot apply 'ITEM' to arguments of type 'ITEM({shown})'. Supported form(s): {forms}"
                )
            return args, VariantType()
        case RowType(fields=fields):
            place = _place(value.type, index, args, signature)
            return args, fields[place].type.nullable(fields[place].type.is_nullable or value.type.is_nullable)
        case _:
            raise refuse("ITEM", args, signature)


def _map_key(index: Node, key: LogicalType, args: Sequence[Node], signature: Sequence[str]) -> Node:
    """Return the key to look up: texts and integers as they are, since a cast to shorter keys would cut them."""
    given = index.type
    if (is_text(given) and is_text(key)) or (isinstance(given, IntegralType) and isinstance(key, IntegralType)):
        return index
    if not isinstance(given, NullType) and not castable(given, key):
        raise refuse("ITEM", args, signature, f"Map keys are of {key}.")
    return cast(index, key.nullable(given.is_nullable))


def _array_item(value: Node, index: Node, element: LogicalType, signature: Sequence[str]) -> Inferred:
    if not isinstance(index.type, IntegralType | NullType):
        raise refuse("ITEM", [value, index], signature, "Array element access needs an index of type INT.")
    if isinstance(index, Literal) and index.value is not None and index.value < 1:
        raise InvalidCall(f"Array element access needs an index starting at 1 but was {index.value}.")
    return [value, cast(index, IntType()) if isinstance(index.type, NullType) else index], element.nullable()


def _place(type_: RowType, index: Node, args: Sequence[Node], signature: Sequence[str]) -> int:
    if not isinstance(index, Literal) or index.value is None:
        raise refuse("ITEM", args, signature, "The field of a row must be a constant.")
    if isinstance(index.value, int):
        place = index.value - 1
        if not 0 <= place < len(type_.fields):
            raise refuse("ITEM", args, signature, f"The row has no field {index.value}.")
        return place
    if index.value not in type_.names:
        raise refuse("ITEM", args, signature, f"The row has no field '{index.value}'.")
    return type_.index(index.value)


def _item(call: Call, evaluator: Any) -> Callable[..., Any]:
    value, index = call.args
    match value.type:
        case ArrayType():
            return lambda array, at: array[at - 1] if 0 < at <= len(array) else None
        case MapType(key=key):

            def look_up(pairs: Any, wanted: Any) -> Any:
                sought = key_of(wanted, key)
                return next((item for found, item in pairs if key_of(found, key) == sought), None)

            return look_up
        case VariantType():
            return _variant_item
    place = _place(value.type, index, call.args, ())
    return lambda row, _: row[place]


def _variant_item(value: Any, index: Any) -> Any:
    if isinstance(index, str):
        if value.type != "OBJECT":
            raise EvaluationError(
                "String key access on variant requires an object variant, but a non-object variant was provided."
            )
        return next((each for key, each in value.value if key == index), None)
    if value.type != "ARRAY":
        raise EvaluationError(
            "Integer index access on variant requires an array variant, but a non-array variant was provided."
        )
    return value.value[index - 1] if 0 < index <= len(value.value) else None


def _get_inference(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
    (value,) = args
    if not isinstance(value.type, RowType):
        raise refuse("GET", args, ("<ROW>.field",))
    field = options["field"]
    index = Literal(field + 1 if isinstance(field, int) else field, type=STRING)
    place = _place(value.type, index, args, ("<ROW>.field",))
    type_ = value.type.fields[place].type
    return args, type_.nullable(type_.is_nullable or value.type.is_nullable)


def _get(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow.compute as pc

    from funken.expr.sql.values import is_scalar

    field, type_ = call.option("field"), call.args[0].type
    place = field if isinstance(field, int) else type_.index(field)
    (column,) = arguments
    if is_scalar(column):
        return _get_scalar(call, arguments, evaluator)
    return pc.struct_field(column, [place])


_get_scalar = bound(lambda call, evaluator: _field_of(call))


def _field_of(call: Call) -> Callable[..., Any]:
    field, type_ = call.option("field"), call.args[0].type
    place = field if isinstance(field, int) else type_.index(field)
    return lambda row: row[place]


def _element_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    return args[0].type.element.nullable()  # type: ignore[no-any-return]


def _only(array: Any) -> Any:
    if len(array) > 1:
        raise EvaluationError("Array has more than one element.")
    if not array:
        return None
    return array[0]


# -- arrays


def _element_signature(name: str) -> tuple[str]:
    array, value = ("array", "element") if name in {"ARRAY_APPEND", "ARRAY_PREPEND"} else ("haystack", "needle")
    return (f"{name}({array} <ARRAY>, {value} <ARRAY ELEMENT>)",)


def _with_element(name: str, widens: bool) -> Any:
    """Return the inference of a function of an array and a value of its elements' type."""

    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
        signature = _element_signature(name)
        if len(args) != 2:
            raise no_match(name, args, signature)
        if not isinstance(args[0].type, ArrayType):
            raise refuse(name, args, signature)
        array, value = args
        if not isinstance(value.type, NullType) and not castable(value.type, array.type.element):
            raise refuse(name, args, signature)
        if widens:
            inner = array.type.element
            inner = inner.nullable(inner.is_nullable or value.type.is_nullable)
            widened = inner.is_nullable and not array.type.element.is_nullable
            type_ = ArrayType(inner, is_nullable=array.type.is_nullable or widened)
            return [cast(array, type_), cast(value, inner)], type_
        return [array, cast(value, array.type.element.nullable())], array.type

    return inferred


def _found_type(name: str, type_: LogicalType, by_needle: bool) -> Any:
    inner = _with_element(name, False)

    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
        fitted, _ = inner(args, options)
        nullable = nullable_of(args) if by_needle else args[0].type.is_nullable
        return fitted, type_.nullable(nullable)

    return inferred


def _keys(call: Call, at: int = 0) -> Callable[[Any], Any]:
    element = call.args[at].type.element
    return lambda value: key_of(value, element)


def _contains(call: Call, evaluator: Any) -> Callable[..., Any]:
    key = _keys(call)

    def contains(array: Any, value: Any) -> bool | None:
        if array is None:
            return None
        wanted = key(value)
        return any(key(each) == wanted for each in array)

    return contains


def _position(call: Call, evaluator: Any) -> Callable[..., Any]:
    key = _keys(call)

    def position(array: Any, value: Any) -> int:
        wanted = key(value)
        return next((at for at, each in enumerate(array, 1) if key(each) == wanted), 0)

    return position


def _remove(call: Call, evaluator: Any) -> Callable[..., Any]:
    key = _keys(call)

    def remove(array: Any, value: Any) -> Any:
        wanted = key(value)
        return None if array is None else [each for each in array if key(each) != wanted]

    return remove


def _distinct(values: Sequence[Any], key: Callable[[Any], Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for each in values:
        found.setdefault(key(each), each)
    return list(found.values())


def _array_distinct(call: Call, evaluator: Any) -> Callable[..., Any]:
    key = _keys(call)
    return lambda array: _distinct(array, key)


def _same_arrays(name: str, least: int, most: int | None) -> Any:
    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
        signature = (f"{name}(<COMMON>, <COMMON>{'' if most else '...'})",)
        if len(args) < least or (most is not None and len(args) > most):
            raise no_match(name, args, signature)
        typed = [each for each in args if not isinstance(each.type, NullType)]
        type_ = None if not typed else common_type([each.type for each in args])
        if type_ is None or not isinstance(type_, ArrayType):
            raise refuse(name, args, signature)
        if name in {"ARRAY_EXCEPT", "ARRAY_INTERSECT"}:
            type_ = ArrayType(type_.element, is_nullable=nullable_of(args))
        return [cast(each, type_) for each in args], type_

    return inferred


def _concat(*arrays: Any) -> list[Any]:
    return [each for array in arrays for each in array]


def _union(call: Call, evaluator: Any) -> Callable[..., Any]:
    key = _keys(call)
    return lambda *arrays: _distinct(_concat(*arrays), key)


def _except(call: Call, evaluator: Any) -> Callable[..., Any]:
    key = _keys(call)

    def remaining(one: Any, other: Any) -> list[Any]:
        without = {key(each) for each in other}
        return [each for each in _distinct(one, key) if key(each) not in without]

    return remaining


def _intersect(call: Call, evaluator: Any) -> Callable[..., Any]:
    key = _keys(call)

    def both(one: Any, other: Any) -> list[Any]:
        within = {key(each) for each in other}
        return [each for each in _distinct(one, key) if key(each) in within]

    return both


def _slice(array: Any, start: int, end: int | None = None) -> list[Any]:
    size = len(array)

    def place(at: int) -> int:
        return at if at > 0 else 1 if at == 0 else at + size + 1

    first = max(place(start), 1)
    last = size if end is None else place(end)
    return array[first - 1 : max(last, 0)] if first <= last else []


def _sorted(array: Any, ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
    nulls = [each for each in array if each is None]
    values = sorted((each for each in array if each is not None), key=_order, reverse=not ascending)
    first = ascending if nulls_first is None else nulls_first
    return nulls + values if first else values + nulls


def _order(value: Any) -> Any:
    return (value != value, value) if isinstance(value, float) else value


def _extreme(call: Call, evaluator: Any) -> Callable[..., Any]:
    choose = max if call.function == "ARRAY_MAX" else min

    def extreme(array: Any) -> Any:
        values = [each for each in array if each is not None]
        return choose(values, key=_order) if values else None

    return extreme


def _ordered(args: Sequence[Node], options: Mapping[str, Any]) -> str | None:
    element = args[0].type.element
    comparable = element.family or isinstance(element, NullType)
    return None if comparable else f"Elements of {element} have no order."


def _comparable(args: Sequence[Node], options: Mapping[str, Any]) -> str | None:
    element = args[0].type.element
    return f"Elements of {element} have no order." if isinstance(element, BooleanType) else _ordered(args, options)


def _join(array: Any, delimiter: str, replacement: str | None = None) -> str:
    texts = [replacement if each is None else each for each in array]
    return delimiter.join(each for each in texts if each is not None)


def _texts(args: Sequence[Node], options: Mapping[str, Any]) -> str | None:
    element = args[0].type.element
    return None if is_text(element) or isinstance(element, NullType) else f"An array of {element} is no array of texts."


def _nullable_element(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    return args[0].type.element.nullable()  # type: ignore[no-any-return]


# -- maps


def _of_map(part: str) -> Any:
    def returns(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
        type_ = args[0].type
        if part == "entries":
            row = RowType.of(("key", type_.key), ("value", type_.value))
            return ArrayType(row, is_nullable=type_.is_nullable)
        return ArrayType(type_.key if part == "keys" else type_.value, is_nullable=type_.is_nullable)

    return returns


def _from_arrays_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    return MapType(args[0].type.element, args[1].type.element, is_nullable=nullable_of(args))


def _from_arrays(call: Call, evaluator: Any) -> Callable[..., Any]:
    type_ = call.type

    def made(keys: Any, values: Any) -> Any:
        if len(keys) != len(values):
            raise EvaluationError(
                f"Invalid function MAP_FROM_ARRAYS call: The length of the keys array {len(keys)} is not equal to "
                f"the length of the values array {len(values)}"
            )
        return pairs_of(keys, values, type_)

    return made


def _map_union_inference(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
    type_ = common_type([each.type for each in args]) if args else None
    if not isinstance(type_, MapType):
        raise refuse("MAP_UNION", args, ("MAP_UNION(<COMMON>...)",))
    return [cast(each, type_) for each in args], type_


def _map_union(call: Call, evaluator: Any) -> Callable[..., Any]:
    type_ = call.type

    def united(*maps: Any) -> Any:
        pairs = [pair for each in maps for pair in each]
        return pairs_of([key for key, _ in pairs], [value for _, value in pairs], type_)

    return united


def split_as_java(pattern: str, text: str, most: int = 0) -> list[str]:
    """Return the parts of a text as ``String.split`` does: no empty part before the first character; of all, none at the end.

    >>> split_as_java("", "ab"), split_as_java(",", "a,b,,"), split_as_java("", "a", 1)
    (['a', 'b'], ['a', 'b'], ['a', ''])
    """
    found: list[str] = []
    at = 0
    for match in regular_expression(pattern).finditer(text):
        if not match.end() or (most and len(found) == most):
            continue
        if match.start() == match.end() == len(text) and not most:
            break
        found.append(text[at : match.start()])
        at = match.end()
    found.append(text[at:])
    while not most and len(found) > 1 and not found[-1]:
        found.pop()
    return found


def _str_to_map(text: str, entries: str = ",", parts: str = "=") -> list[tuple[str, Any]]:
    found: dict[str, Any] = {}
    if text:
        for each in split_as_java(entries, text):
            key, *value = split_as_java(parts, each, 1)
            found[key] = value[0] if value else None
    return list(found.items())


# -- structured objects


def _name_of(node: Node) -> str | None:
    return node.value if isinstance(node, Literal) and isinstance(node.value, str) else None


def _object_inference(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
    signature = ("OBJECT_OF(<CLASS NAME>, [<FIELD NAME>, <VALUE>...])",)
    if len(args) % 2 == 0:
        raise refuse("OBJECT_OF", args, signature)
    name = _name_of(args[0])
    if name is None:
        raise refuse(
            "OBJECT_OF",
            args,
            signature,
            "The first argument must be a non-nullable character string literal representing the class name.",
        )
    fields: list[RowField] = []
    for at in range(1, len(args), 2):
        field = _name_of(args[at])
        if field is None:
            raise refuse(
                "OBJECT_OF",
                args,
                signature,
                f"The field key at position {at + 1} must be a non-nullable character string literal.",
            )
        if field in [each.name for each in fields]:
            raise refuse("OBJECT_OF", args, signature, f"The field name '{field}' at position {at + 1} is repeated.")
        fields.append(RowField(field, args[at + 1].type))
    return args, StructuredType(tuple(fields), class_name=name, is_nullable=True)


def _update_inference(args: Sequence[Node], options: Mapping[str, Any]) -> Inferred:
    signature = ("OBJECT_UPDATE(<STRUCTURED>, [<FIELD NAME>, <VALUE>...])",)
    if len(args) % 2 == 0 or len(args) < 3 or not isinstance(args[0].type, StructuredType):
        raise refuse("OBJECT_UPDATE", args, signature, "The first argument must be a structured type.")
    type_, seen = args[0].type, set()
    fields = {each.name: each for each in type_.fields}
    for at in range(1, len(args), 2):
        name = _name_of(args[at])
        if name is None:
            raise refuse(
                "OBJECT_UPDATE",
                args,
                signature,
                f"The field key at position {at + 1} must be a non-nullable character string literal.",
            )
        if name not in fields:
            raise refuse(
                "OBJECT_UPDATE",
                args,
                signature,
                f"The field name '{name}' at position {at + 1} is not part of the structured type attributes. "
                f"Available attributes: [{', '.join(fields)}].",
            )
        if name in seen:
            raise refuse("OBJECT_UPDATE", args, signature, f"The field name '{name}' at position {at + 1} is repeated.")
        seen.add(name)
        fields[name] = RowField(name, args[at + 1].type)
    return args, StructuredType(tuple(fields.values()), class_name=type_.class_name, is_nullable=type_.is_nullable)


def _update(call: Call, evaluator: Any) -> Callable[..., Any]:
    places = [call.type.index(str(_name_of(each))) for each in call.args[1::2]]

    def updated(row: Any, *rest: Any) -> Any:
        if row is None:
            return None
        values = list(row)
        for place, value in zip(places, rest[1::2], strict=True):
            values[place] = value
        return tuple(values)

    return updated


def _rule(name: str, infer: Any, kernel: Any, text: str, *examples: tuple[str, str], **more: Any) -> FunctionRule:
    return FunctionRule(name, more.pop("signatures"), infer, kernel, text, examples, group=_GROUP, **more)


def _row(
    name: str, params: Any, returns: Any, kernel: Any, text: str, *examples: tuple[str, str], **more: Any
) -> FunctionRule:
    return function(name, params, returns, kernel, text, *examples, group=_GROUP, **more)


_CONSTRUCTORS: list[FunctionRule] = [
    _rule(
        "ARRAY",
        _array_inference,
        per_value(lambda *values: list(values), C),
        "An array of values.",
        ("ARRAY[1, 2]", "[1, 2]"),
        signatures=("ARRAY[<COMMON>...]",),
        nulls=C,
    ),
    _rule(
        "MAP",
        _map_inference,
        bound(_map, C),
        "A map of keys and values.",
        ("MAP['a', 1]", "{a=1}"),
        signatures=("MAP[<KEY>, <VALUE>...]",),
        nulls=C,
    ),
    _rule(
        "ROW",
        _row_inference,
        per_value(lambda *values: values, C),
        "A row of values.",
        ("ROW(1, 'a')", "(1, a)"),
        signatures=("ROW(<ANY>...)",),
        nulls=C,
    ),
    _rule(
        "ITEM",
        _item_inference,
        bound(_item),
        "An element, from 1, of an array; the value of a key; a field. NULL if there is none.",
        ("ARRAY[5, 6][2]", "6"),
        ("MAP['a', 1]['b']", "NULL"),
        signatures=("<ARRAY>[<INTEGER>]", "<MAP>[<KEY>]"),
        raises=True,
    ),
    _rule(
        "GET",
        _get_inference,
        of_columns(_get),
        "A field of a row.",
        ("CAST(ROW(1, 'a') AS ROW<n INT, s STRING>).s", "a"),
        signatures=("<ROW>.field",),
    ),
    _row(
        "CARDINALITY",
        "array|map|multiset",
        "INT",
        len,
        "How many elements there are.",
        ("CARDINALITY(ARRAY[1, 2])", "2"),
    ),
    _row(
        "ELEMENT",
        "array|multiset",
        _element_type,
        _only,
        "The only element; NULL if there is none, several fail.",
        ("ELEMENT(ARRAY[5])", "5"),
        raises=True,
    ),
    _rule(
        "OBJECT_OF",
        _object_inference,
        per_value(lambda _, *rest: tuple(rest[1::2]), C),
        "An object of a named class.",
        ("OBJECT_OF('com.example.User', 'name', 'Bob')", "(name=Bob)"),
        nulls=C,
        signatures=("OBJECT_OF(<STRING>, [<STRING>, <ANY>]...)",),
    ),
    _rule(
        "OBJECT_UPDATE",
        _update_inference,
        bound(_update, C),
        "An object with other values of some fields.",
        ("OBJECT_UPDATE(OBJECT_OF('com.example.User', 'name', 'Bob'), 'name', 'Ann')", "(name=Ann)"),
        nulls=C,
        signatures=("OBJECT_UPDATE(<STRUCTURED_TYPE>, [<STRING>, <ANY>]...)",),
    ),
]


_ARRAYS: list[FunctionRule] = [
    _rule(
        "ARRAY_APPEND",
        _with_element("ARRAY_APPEND", True),
        per_value(lambda array, value: None if array is None else [*array, value], C),
        "The array with a value at its end.",
        ("ARRAY_APPEND(ARRAY[1, 2], 3)", "[1, 2, 3]"),
        nulls=C,
        signatures=_element_signature("ARRAY_APPEND"),
    ),
    _rule(
        "ARRAY_PREPEND",
        _with_element("ARRAY_PREPEND", True),
        per_value(lambda array, value: None if array is None else [value, *array], C),
        "The array with a value at its start.",
        ("ARRAY_PREPEND(ARRAY[1, 2], 0)", "[0, 1, 2]"),
        nulls=C,
        signatures=_element_signature("ARRAY_PREPEND"),
    ),
    _rule(
        "ARRAY_CONTAINS",
        _found_type("ARRAY_CONTAINS", BooleanType(), False),
        bound(_contains, C),
        "Whether a value is in the array.",
        ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", "TRUE"),
        nulls=C,
        signatures=_element_signature("ARRAY_CONTAINS"),
    ),
    _rule(
        "ARRAY_POSITION",
        _found_type("ARRAY_POSITION", IntType(), True),
        bound(_position),
        "The position of a value, from 1; 0 if it is not there.",
        ("ARRAY_POSITION(ARRAY[5, 6], 6)", "2"),
        signatures=_element_signature("ARRAY_POSITION"),
    ),
    _rule(
        "ARRAY_REMOVE",
        _with_element("ARRAY_REMOVE", False),
        bound(_remove, C),
        "The array without a value.",
        ("ARRAY_REMOVE(ARRAY[1, 2, 2], 2)", "[1]"),
        nulls=C,
        signatures=_element_signature("ARRAY_REMOVE"),
    ),
    _row(
        "ARRAY_DISTINCT",
        "array",
        "$0",
        bound(_array_distinct),
        "The array with every value once.",
        ("ARRAY_DISTINCT(ARRAY[1, 2, 1])", "[1, 2]"),
    ),
    _row(
        "ARRAY_REVERSE",
        "array",
        "$0",
        lambda array: array[::-1],
        "The array backwards.",
        ("ARRAY_REVERSE(ARRAY[1, 2])", "[2, 1]"),
    ),
    _row(
        "ARRAY_SLICE",
        ["array int int", "array int"],
        "$0",
        _slice,
        "The part from a position to another, both included; negative ones count from the end.",
        ("ARRAY_SLICE(ARRAY[1, 2, 3], 2, 3)", "[2, 3]"),
    ),
    _row(
        "ARRAY_SORT",
        "array bool? bool?",
        "$0",
        _sorted,
        "The array in order, ``ARRAY_SORT(array[, ascending[, nulls first]])``.",
        ("ARRAY_SORT(ARRAY[2, 1])", "[1, 2]"),
        check=_ordered,
        signatures=tuple(f"ARRAY_SORT(<ARRAY<COMPARABLE>>{', <BOOLEAN>' * flags})" for flags in range(3)),
    ),
    _row(
        "ARRAY_MAX",
        "array",
        _nullable_element,
        bound(_extreme),
        "The greatest element.",
        ("ARRAY_MAX(ARRAY[1, 3, 2])", "3"),
        check=_comparable,
    ),
    _row(
        "ARRAY_MIN",
        "array",
        _nullable_element,
        bound(_extreme),
        "The least element.",
        ("ARRAY_MIN(ARRAY[1, 3, 2])", "1"),
        check=_comparable,
    ),
    _row(
        "ARRAY_JOIN",
        "array text text?",
        "STRING",
        _join,
        "The texts with a delimiter between them; NULLs are left out, or replaced by a third text.",
        ("ARRAY_JOIN(ARRAY['a', 'b'], '+')", "a+b"),
        check=_texts,
        signatures=tuple(
            f"ARRAY_JOIN(ARRAY<STRING>, <CHARACTER_STRING>{more})" for more in ("", ", <CHARACTER_STRING>")
        ),
    ),
]


def _sets() -> list[FunctionRule]:
    found = []
    for name, least, most, kernel, text, value in (
        ("ARRAY_CONCAT", 1, None, per_value(_concat), "The arrays, one after the other.", "[1, 2, 2, 3]"),
        ("ARRAY_UNION", 2, 2, bound(_union), "What is in either array, once.", "[1, 2, 3]"),
        ("ARRAY_EXCEPT", 2, 2, bound(_except), "What is in the first array only, once.", "[1]"),
        ("ARRAY_INTERSECT", 2, 2, bound(_intersect), "What is in both arrays, once.", "[2]"),
    ):
        example = (f"{name}(ARRAY[1, 2], ARRAY[2, 3])", value)
        signature = f"{name}(<COMMON>, <COMMON>{'' if most else '...'})"
        found.append(_rule(name, _same_arrays(name, least, most), kernel, text, example, signatures=(signature,)))
    return found


_MAPS: list[FunctionRule] = [
    _row(
        "MAP_KEYS",
        "map",
        _of_map("keys"),
        lambda pairs: [key for key, _ in pairs],
        "The keys.",
        ("MAP_KEYS(MAP['a', 1])", "[a]"),
    ),
    _row(
        "MAP_VALUES",
        "map",
        _of_map("values"),
        lambda pairs: [value for _, value in pairs],
        "The values.",
        ("MAP_VALUES(MAP['a', 1])", "[1]"),
    ),
    _row(
        "MAP_ENTRIES",
        "map",
        _of_map("entries"),
        list,
        "The entries as rows of key and value.",
        ("MAP_ENTRIES(MAP['a', 1])", "[(a, 1)]"),
    ),
    _row(
        "MAP_FROM_ARRAYS",
        "array array",
        _from_arrays_type,
        bound(_from_arrays),
        "The map of an array of keys and one of values.",
        ("MAP_FROM_ARRAYS(ARRAY['a'], ARRAY[1])", "{a=1}"),
        raises=True,
    ),
    _rule(
        "MAP_UNION",
        _map_union_inference,
        bound(_map_union),
        "The entries of all maps; of equal keys, the last one's.",
        ("MAP_UNION(MAP['a', 1], MAP['b', 2])", "{a=1, b=2}"),
        signatures=("MAP_UNION(<COMMON>...)",),
    ),
    _row(
        "STR_TO_MAP",
        ["text", "text text text"],
        "MAP<STRING, STRING>?",
        _str_to_map,
        "The map of a text like ``k1=v1,k2=v2``; the delimiters are regular expressions.",
        ("STR_TO_MAP('a=1,b=2')", "{a=1, b=2}"),
    ),
]

ROWS = [*_CONSTRUCTORS, *_ARRAYS, *_sets(), *_MAPS]

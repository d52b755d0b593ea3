"""What is known of a condition before anything is computed, in functions with state."""

from __future__ import annotations

from funken.columnar.calling.constants import constant_of
from funken.columnar.expressions import Argument, Choose, Constant, Expression, IsNone, Unary
from funken.columnar.flat_maps.code import Code
from funken.columnar.stack import Stack
from funken.columnar.stateful.traced import FIRST_STATE


def known_jump(condition: Expression, jump: str) -> bool | None:
    """Return whether a jump is taken, where that is known; of a state that has a value, it is known that it is not ``None``."""
    if "NONE" in jump:
        missing = _is_none(condition)
        return missing if missing is None else missing != ("NOT_NONE" in jump)
    inverted = "FALSE" in jump
    while isinstance(condition, Unary) and condition.op in ("not", "bool"):
        inverted ^= condition.op == "not"
        condition = condition.operand
    truth = bool(condition.value) if isinstance(condition, Constant) else None
    if isinstance(condition, IsNone):
        truth = _is_none(condition.operand)
    return None if truth is None else truth != inverted


def _is_none(operand: Expression) -> bool | None:
    if isinstance(operand, Constant):
        return operand.value is None
    return False if isinstance(operand, Argument) and _is_value(operand) else None


def _is_value(argument: Argument) -> bool:
    return len(argument.path) == 2 and argument.path[0] >= FIRST_STATE and argument.path[1] == 1


def or_constant(code: Code, name: str, here: int, there: int, stack: Stack) -> Stack | None:
    """Return the stack behind ``state or constant``, which is one value and not two paths; ``None`` if that is not what comes."""
    value, operations, behind = stack.top(), code.operations[here:there], stack.copy()
    value = value.operand if isinstance(value, Unary) and value.op == "bool" else value
    if not isinstance(value, Argument) or not _is_value(value):
        return None
    behind.pop()
    if name == "POP_JUMP_IF_TRUE" and operations and operations[0].name == "POP_TOP" and behind.top() is value:
        operations = operations[1:]
        behind.pop()
    elif name != "JUMP_IF_TRUE_OR_POP":
        return None
    if [each.name for each in operations] != ["LOAD_CONST"]:
        return None
    behind.push(Choose(value, value, constant_of(operations[0].argument)))
    return behind


__all__ = ["known_jump", "or_constant"]

"""Names of the JVM in PyFlink: a call raises an error with the replacement."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from funken.compat.pyflink.adoption import refuse

_INSTEAD = "Use the methods of the environment, the streams and the configuration."


def get_gateway() -> NoReturn:
    """Raise: there is no gateway."""
    refuse("get_gateway()", _INSTEAD)


def on_windows() -> bool:
    """Return True if this is Windows; tests of PyFlink ask."""
    return sys.platform == "win32"


def launch_gateway_server_process(env: Any, args: Any) -> NoReturn:
    """Raise: there is no gateway."""
    refuse("launch_gateway_server_process()", _INSTEAD)


def launch_gateway() -> NoReturn:
    """Raise: there is no gateway."""
    refuse("launch_gateway()", _INSTEAD)


def get_j_env_configuration(j_env: Any) -> NoReturn:
    """Raise: there is no Java environment."""
    refuse("get_j_env_configuration()", "Use env.get_configuration(), and env.configure(...).")


def add_jars_to_context_class_loader(jar_urls: Any) -> None:
    """Accept and ignore: there is no class loader."""


def load_java_class(class_name: str) -> NoReturn:
    """Raise: there are no Java classes."""
    refuse(f"load_java_class({class_name!r})", _INSTEAD)


def to_jarray(j_type: Any, arr: Any) -> NoReturn:
    """Raise: there are no Java arrays."""
    refuse("to_jarray()", "Use a list.")


def invoke_method(*args: Any) -> NoReturn:
    """Raise: there are no Java methods."""
    refuse("invoke_method()", _INSTEAD)


def get_field_value(java_obj: Any, field_name: str) -> NoReturn:
    """Raise: there are no Java fields."""
    refuse("get_field_value()", _INSTEAD)


def is_instance_of(java_object: Any, java_class: Any) -> NoReturn:
    """Raise: there are no Java classes."""
    refuse("is_instance_of()", "Use isinstance().")


class JavaObjectWrapper:
    """Base of PyFlink's wrappers of Java objects: none can be made."""

    def __init__(self, j_object: Any) -> None:
        refuse(f"{type(self).__name__}({j_object!r})", _INSTEAD)


class InputFormat(JavaObjectWrapper):
    """A Java input format: refused."""


__all__ = [
    "add_jars_to_context_class_loader",
    "get_field_value",
    "get_gateway",
    "get_j_env_configuration",
    "invoke_method",
    "is_instance_of",
    "launch_gateway",
    "launch_gateway_server_process",
    "load_java_class",
    "on_windows",
    "to_jarray",
]

"""Type parameters of the public classes, for type checkers; at run time they are names and nothing else.

``Generic`` is ``typing.Generic`` to a type checker. At run time it is a base class whose subscription gives the class
itself: ``MapFunction[str, int]`` *is* ``MapFunction``. So type arguments cost nothing, are not pickled with a program or a
checkpoint, and need not be importable on the workers. For the same reason they cannot be asked for at run time.

Parameters of classes stand for ``Any`` where they are left out (PEP 696), so a program without annotations is checked
as far as it is annotated. Variance is in the name: ``_co`` for what a class gives, ``_contra`` for what it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Generic as Generic  # noqa: PLC0414 - the alias is what re-exports it

    from typing_extensions import TypeVar
else:
    import typing

    class Generic:
        """A base of classes with type parameters, which are ignored."""

        __slots__ = ()

        def __class_getitem__(cls, parameters):
            return cls

    def TypeVar(name, *, covariant=False, contravariant=False, default=None):
        """Make a type variable; Python knows defaults from 3.13 on."""
        return typing.TypeVar(name, covariant=covariant, contravariant=contravariant)


T = TypeVar("T", default=Any)  # a record, a value
T_co = TypeVar("T_co", covariant=True, default=Any)
T_contra = TypeVar("T_contra", contravariant=True, default=Any)
T1_co = TypeVar("T1_co", covariant=True, default=Any)  # records of the first of two streams
T2_co = TypeVar("T2_co", covariant=True, default=Any)
T1 = TypeVar("T1", default=Any)
T2 = TypeVar("T2", default=Any)
K = TypeVar("K", default=Any)  # a key
K_co = TypeVar("K_co", covariant=True, default=Any)
K_contra = TypeVar("K_contra", contravariant=True, default=Any)
V = TypeVar("V", default=Any)  # a value of a map
W = TypeVar("W", default=Any)  # a window
W_co = TypeVar("W_co", covariant=True, default=Any)
W_contra = TypeVar("W_contra", contravariant=True, default=Any)
NAME_co = TypeVar("NAME_co", covariant=True, default=Any)  # how two streams are put together
ACC = TypeVar("ACC", default=Any)  # an accumulator
IN_contra = TypeVar("IN_contra", contravariant=True, default=Any)  # what a function takes
IN1_contra = TypeVar("IN1_contra", contravariant=True, default=Any)
IN2_contra = TypeVar("IN2_contra", contravariant=True, default=Any)
OUT_co = TypeVar("OUT_co", covariant=True, default=Any)  # what it gives

# Parameters of single methods: solved where they are called, so there is nothing that they default to.
A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S")

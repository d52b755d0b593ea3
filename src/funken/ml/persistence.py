"""Saved models: a folder with ``model.json``, which anyone can read, and ``arrays.npz``; nothing in it is executed.

The header names a class of ``funken.ml``, its parameters and its fitted attributes; arrays are referred to by name. Only classes
that this module lists are made, and arrays are loaded without pickle, so a file from a stranger can be wrong but runs no code.

    {"format": "funken.ml", "version": 1,
     "model": {"object": "KMeans", "values": {"n_clusters": 3, "cluster_centers_": {"array": "a0"}}}}
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import feature_selection
from sklearn.base import BaseEstimator

from funken.errors import InvalidProgram

_FUNCTIONS = {name: getattr(feature_selection, name) for name in ("f_classif", "f_regression", "chi2")}
_TYPES = {kind.__name__: kind for kind in (np.float64, np.float32, np.int64, np.int32, np.bool_)}
_PARTS = {
    "funken.ml.online": ("KMeansKernel", "FtrlKernel", "ScalerKernel"),
    "funken.ml.preprocessing.transformers": ("Moments",),
    "funken.ml.data": ("FieldLayout",),
}
FORMAT, VERSION = "funken.ml", 1


def classes() -> dict[str, type]:
    """Return the classes that a saved model may consist of, by name.

    >>> "KMeans" in classes(), "PartitionClassifier" in classes()
    (True, False)
    """
    library = importlib.import_module("funken.ml")
    found = {name: getattr(library, name) for name in library.__all__}
    known = {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, BaseEstimator)}
    for name in ("PartitionClassifier", "PartitionRegressor", "RiverLearner", "OnlineLearner"):
        del known[name]  # these hold models of other libraries
    for module, names in _PARTS.items():
        known |= {name: getattr(importlib.import_module(module), name) for name in names}
    return known


def save(model: Any, path: Any) -> None:
    """Save a fitted estimator, a pipeline of them, or the model of a ``ModelVersion``; ``path`` is a new folder.

    >>> import tempfile
    >>> from funken.ml import LinearRegression
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> save(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]), folder)
    >>> load(folder).coef_
    array([2.])
    """
    if not hasattr(model, "__dict__") or not type(model).__module__.startswith("funken.ml"):
        raise InvalidProgram(
            f"save(): {model!r:.100} is no model. Give a fitted estimator of funken.ml, or version.model."
        )
    arrays: dict[str, Any] = {}
    header = {"format": FORMAT, "version": VERSION, "model": _Encoder(arrays).encode(model, type(model).__name__)}
    folder = os.fspath(path)
    try:
        os.makedirs(folder)
    except FileExistsError:
        raise InvalidProgram(f"save(): {folder!r} exists already. Choose another folder, or remove it.") from None
    np.savez(os.path.join(folder, "arrays.npz"), allow_pickle=False, **arrays)
    with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
        json.dump(header, file, indent=1, allow_nan=False)


def load(path: Any) -> Any:
    """Load a model written by ``save``; raise ``InvalidProgram`` if it is something else.

    >>> load("missing")
    Traceback (most recent call last):
    funken.errors.InvalidProgram: load(): 'missing' has no readable model: ... Give a folder that save() wrote.
    """
    folder = os.fspath(path)
    try:
        with open(os.path.join(folder, "model.json"), encoding="utf-8") as file:
            header = json.load(file)
        with np.load(os.path.join(folder, "arrays.npz"), allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError) as error:
        raise InvalidProgram(
            f"load(): {folder!r} has no readable model: {error}. Give a folder that save() wrote."
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidProgram(f"load(): {folder!r} is no model of funken.ml. Give a folder that save() wrote.")
    if header.get("version") != VERSION:
        raise InvalidProgram(
            f"load(): the model has the version {header.get('version')!r}, but this Funken reads {VERSION}. Save it again."
        )
    try:
        return _Decoder(arrays).decode(header["model"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidProgram):
            raise
        raise InvalidProgram(f"load(): the model in {folder!r} is damaged: {error!r}. Save it again.") from error


class _Encoder:
    def __init__(self, arrays: dict[str, Any]) -> None:
        self._arrays = arrays
        self._classes = {kind: name for name, kind in classes().items()}

    def encode(self, value: Any, place: str) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.generic) and not isinstance(value, np.str_):
            value = value.item()
        if isinstance(value, int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            if value.dtype == object:
                return {"objects": [self.encode(each, place) for each in value.ravel().tolist()], "shape": value.shape}
            return self._array(value)
        if sparse.issparse(value):
            rows = value.tocsr()
            return {"csr": [self._array(each) for each in (rows.data, rows.indices, rows.indptr)], "shape": rows.shape}
        if isinstance(value, list | tuple | set | frozenset):
            each = [
                self.encode(item, place) for item in (sorted(value) if isinstance(value, set | frozenset) else value)
            ]
            return each if isinstance(value, list) else {type(value).__name__: each}
        if isinstance(value, dict):
            return {"dict": [[self.encode(key, place), self.encode(each, place)] for key, each in value.items()]}
        for name, known in _FUNCTIONS.items():
            if value is known:
                return {"function": name}
        if isinstance(value, np.dtype) and value.kind in "biufO":
            return {"dtype": value.str}
        if isinstance(value, type) and value in _TYPES.values():
            return {"type": value.__name__}
        return self._object(value, place)

    def _array(self, value: Any) -> dict[str, str]:
        name = f"a{len(self._arrays)}"
        self._arrays[name] = np.asarray(value)
        return {"array": name}

    def _object(self, value: Any, place: str) -> dict[str, Any]:
        kind = next((each for each in type(value).__mro__ if each in self._classes), None)
        if type(value).__module__.startswith("sklearn."):  # a part of a vectorizer: the class here that derives from it
            kind = next((each for each in self._classes if type(value) in each.__mro__[1:]), kind)
        if kind is None:
            raise InvalidProgram(
                f"save(): {place} holds a {type(value).__qualname__}, which has no form without pickle. Save that with its own "
                "library."
            )
        if dataclasses.is_dataclass(value):
            values = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        else:
            values = value._saved() if hasattr(value, "_saved") else dict(vars(value))
        encoded = {name: self.encode(each, f"{place}.{name}") for name, each in values.items()}
        return {"object": self._classes[kind], "values": encoded}


class _Decoder:
    def __init__(self, arrays: dict[str, Any]) -> None:
        self._arrays = arrays
        self._classes = classes()

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(each) for each in value]
        if not isinstance(value, dict):
            return value
        match value:
            case {"float": text}:
                return float(text)
            case {"array": name}:
                return self._arrays[name]
            case {"objects": items, "shape": shape}:
                found = np.empty(len(items), dtype=object)
                found[:] = [self.decode(each) for each in items]
                return found.reshape(shape)
            case {"csr": parts, "shape": shape}:
                found = sparse.csr_matrix(tuple(self.decode(each) for each in parts), shape=tuple(shape))
                found.check_format(full_check=True)
                return found
            case {"tuple": items}:
                return tuple(self.decode(items))
            case {"set": items}:
                return set(self.decode(items))
            case {"frozenset": items}:
                return frozenset(self.decode(items))
            case {"dict": items}:
                return {self.decode(key): self.decode(each) for key, each in items}
            case {"function": name}:
                return _FUNCTIONS[name]
            case {"dtype": name}:
                return np.dtype(str(name))
            case {"type": name}:
                return _TYPES[name]
            case {"object": name, "values": values}:
                return self._object(name, {key: self.decode(each) for key, each in values.items()})
        raise InvalidProgram(f"load(): the model has a part of an unknown kind: {sorted(value)}.")

    def _object(self, name: str, values: dict[str, Any]) -> Any:
        kind = self._classes.get(name)
        if kind is None:
            raise InvalidProgram(f"load(): the model has a part of the class {name!r}, which is not one of funken.ml.")
        if dataclasses.is_dataclass(kind):
            return kind(**values)
        made: Any = object.__new__(kind)
        if any(not key.isidentifier() or key.startswith("__") for key in values):
            raise InvalidProgram(f"load(): the model has an attribute of {name} with an unusual name.")
        if hasattr(made, "_loaded"):
            made._loaded(values)
        else:
            vars(made).update(values)
        return made

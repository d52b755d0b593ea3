"""``funken state``: look into a savepoint or checkpoint without running its job."""

from __future__ import annotations

import datetime
import itertools
import json
import sys
from typing import Any

import click

from funken.checkpoint.store.completed import RestorePoint, open_checkpoint
from funken.checkpoint.store.databases import StateEntry, entries_of, operator_of, states_of
from funken.cli.failures import ending_well
from funken.cli.jobs import as_json_option, print_json, print_rows
from funken.io.shapes import record_repr

_path = click.argument("savepoint", metavar="SAVEPOINT")


@click.group()
def state() -> None:
    """Look into a savepoint or checkpoint.

    \b
    funken state ls savepoints/savepoint-5f2a91-0c7d
    funken state show savepoints/savepoint-5f2a91-0c7d --operator count --key alice
    """


@state.command("ls")
@_path
@as_json_option
def list_states(savepoint: str, as_json: bool) -> None:
    """List the operators of SAVEPOINT and their state."""
    with ending_well():
        found = open_checkpoint(savepoint)
        if as_json:
            print_json(_summary(found))
        else:
            _print_summary(found)


@state.command("show")
@_path
@click.option("--operator", help="Only this operator: its id, or its name.")
@click.option("--state", "name", help="Only the state of this name.")
@click.option("--key", help="Only this key, written as Python prints it; quotes may be left out.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Print at most so many entries."
)
@as_json_option
def show_entries(
    savepoint: str, operator: str | None, name: str | None, key: str | None, limit: int, as_json: bool
) -> None:
    """Print the keys and values in SAVEPOINT.

    Values are Python objects: the modules of their classes are looked for in the current folder too. Reading them runs code
    that the savepoint names, so read only savepoints that you trust.
    """
    with ending_well():
        if "" not in sys.path:
            sys.path.insert(0, "")
        found = open_checkpoint(savepoint)
        operators = found.manifest.operators if operator is None else (operator_of(found, operator),)
        entries = (
            entry
            for each in operators
            for entry in entries_of(found, each)
            if (name is None or entry.state == name) and (key is None or key in (str(entry.key), repr(entry.key)))
        )
        some = list(itertools.islice(entries, limit + 1))
        if as_json:
            click.echo(json.dumps([_plain(entry) for entry in some[:limit]], indent=2, default=record_repr))
        else:
            _print_entries(some[:limit])
            if len(some) > limit:
                click.echo(f"... and more; --limit shows more than {limit}.")


def _summary(found: RestorePoint) -> dict[str, Any]:
    manifest = found.manifest
    return {
        "path": found.root.uri,
        "job_id": manifest.job_id,
        "job_name": manifest.job_name,
        "kind": manifest.kind.value,
        "checkpoint": manifest.checkpoint,
        "time": _time(manifest.time),
        "bytes": manifest.size,
        "bytes_in_flight": manifest.in_flight,
        "operators": [
            {
                "id": entry.id,
                "uid": entry.uid,
                "name": entry.name,
                "parallelism": entry.parallelism,
                "max_parallelism": entry.max_parallelism,
                "bytes": sum(handle.size for handle in entry.subtasks),
                "states": states_of(entry),
            }
            for entry in manifest.operators
        ],
    }


def _time(millis: int) -> str:
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.UTC).isoformat(timespec="seconds")


def _print_summary(found: RestorePoint) -> None:
    about = _summary(found)
    click.echo(
        f"{about['kind']} {about['checkpoint']} of {about['job_name']!r} (job {about['job_id']}), {about['time']}"
    )
    rows = []
    for entry in about["operators"]:
        states = ", ".join(f"{name} ({kind})" for name, kind in entry["states"].items())
        label = entry["id"] if entry["uid"] else f"{entry['id']} (no uid)"
        rows.append((label, entry["name"], str(entry["parallelism"]), str(entry["bytes"]), states))
    print_rows(("id", "operator", "parallelism", "bytes", "states"), rows)


def _plain(entry: StateEntry) -> dict[str, Any]:
    return {name: _json_of(getattr(entry, name)) for name in StateEntry.__slots__}


def _json_of(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return record_repr(value)
    return value


def _print_entries(entries: list[StateEntry]) -> None:
    rows = []
    for entry in entries:
        key = "" if entry.key is None else record_repr(entry.key)
        if entry.namespace is not None:
            key = f"{key} in {record_repr(entry.namespace)}"
        rows.append((entry.operator, entry.state, entry.kind, key, record_repr(entry.value)))
    print_rows(("operator", "state", "kind", "key", "value"), rows)

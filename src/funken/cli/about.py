"""``funken options``, ``version``, ``completion`` and ``stubs``: options, versions, completion of shells, types of PyFlink."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from rich.console import Console
from rich.table import Table
from rich.text import Text

import funken
from funken import config
from funken.errors import JavaNotFound
from funken.spark.java import ensure_java

_JAVA_SECONDS = 30.0


@click.command()
@click.argument("words", metavar="[WORD]...", nargs=-1)
def options(words: tuple[str, ...]) -> None:
    """List the options that -D and Configuration take.

    With words, only those that have all of them in their name or meaning, in any case; those with the words in their name come
    first. Without a terminal, each is one line: option, default, a tab, meaning.
    """
    wanted = [word.lower() for word in words]
    named = [option for option in config.options() if all(word in option.key.lower() for word in wanted)]
    others = [option for option in config.options() if option not in named]
    found = named + [one for one in others if all(word in f"{one.key} {one.doc}".lower() for word in wanted)]
    if not found:
        raise click.ClickException(
            f"no option has {' '.join(words)!r} in its name or meaning. 'funken options' without a word lists all."
        )
    defaults = ["" if option.default in ("", {}) else str(option.default) for option in found]
    console = Console(highlight=False)
    if not console.is_terminal:  # one option, one line, for grep and the like
        for option, default in zip(found, defaults, strict=True):
            click.echo(f"{option.key} = {default}\t{' '.join(option.doc.split())}")
        return
    table = Table(box=None, padding=(0, 2, 1, 0), header_style="bold")
    table.add_column("option = default", no_wrap=True)
    table.add_column("meaning")
    for option, default in zip(found, defaults, strict=True):
        table.add_row(Text(f"{option.key}\n  = {default}"), Text(option.doc))
    console.print(table)


@click.command()
def version() -> None:
    """Print the versions of Funken and of what it runs on."""
    click.echo(f"funken   {funken.__version__}")
    for package in ("pyspark", "pyarrow"):
        click.echo(f"{package:8} {importlib.metadata.version(package)}")
    click.echo(f"python   {platform.python_version()} ({platform.system()} {platform.machine()})")
    try:
        home = ensure_java()
    except JavaNotFound as error:
        click.echo(f"java     none: {error}")
        return
    try:
        java = [str(Path(home, "bin", "java")), "-version"]
        said = subprocess.run(java, capture_output=True, text=True, check=False, timeout=_JAVA_SECONDS).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        said = f"unknown: {error}"
    first = next(iter(said.splitlines()), "unknown")
    click.echo(f"java     {first} ({home})")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    eval "$(funken completion bash)"     in ~/.bashrc
    eval "$(funken completion zsh)"      in ~/.zshrc
    funken completion fish > ~/.config/fish/completions/funken.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # Not kind(...).source(): that looks for the bash of this machine, which need not be the one that reads the script.
    script = kind(context.find_root().command, {}, "funken", "_FUNKEN_COMPLETE")
    click.echo(script.source_template % script.source_vars())


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), default="typings")
def stubs(folder: Path) -> None:
    """Write stubs of pyflink, with Funken's types, for mypy, pyright and editors.

    They go to FOLDER/pyflink. FOLDER is typings by default, where pyright and VS Code look; mypy: MYPYPATH=typings.
    """
    from funken.compat.pyflink.stubs import write  # noqa: PLC0415 - loads the layer, and installs its import hook

    try:
        count = write(folder)
    except (ImportError, OSError) as error:
        raise click.ClickException(f"the stubs cannot be written to {str(folder)!r}: {error}") from error
    click.echo(f"{count} modules in {folder / 'pyflink'}. pyright looks into typings; mypy: MYPYPATH={folder}")

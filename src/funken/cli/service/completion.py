"""``funken completion``: the script with which a shell completes commands and options; click makes it."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


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

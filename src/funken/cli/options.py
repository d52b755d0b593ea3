"""Options that several commands share. Commands that run no script import this module instead of ``funken.cli.run``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import click

from funken import config
from funken.config import Configuration
from funken.errors import InvalidConfiguration


def _configure(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> Configuration:
    configuration = Configuration()
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE.")
        try:
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                configuration.set(key.strip(), value.strip())
        except InvalidConfiguration as error:
            raise click.BadParameter(f"{error} 'funken options' lists all.") from None
        for warning in given:
            click.echo(f"Warning: {warning.message}", err=True)
    return configuration


conf_option = click.option(
    "--conf",
    "-D",
    "configuration",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_configure,
    help="Set an option; 'funken options' lists them. May be repeated.",
)


def job_options(default_target: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of every job: ``--target``, ``--parallelism``, ``--conf``."""
    options = (
        click.option(
            "--target",
            type=click.Choice(["auto", "local", "batch", "continuous"]),
            default=default_target,
            show_default=True,
            help="Where to run: in this process, as a Spark batch job, or in Spark's real-time mode.",
        ),
        click.option("--parallelism", "-p", type=click.IntRange(min=1), help="Subtasks per operator."),
        conf_option,
    )

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def with_options(configuration: Configuration, target: str, parallelism: int | None) -> Configuration:
    """Add to a configuration what has an option of its own; ``auto`` leaves the target as it is."""
    if target != "auto":
        configuration.set(config.TARGET, target)
    if parallelism is not None:
        configuration.set(config.PARALLELISM, parallelism)
    return configuration


__all__ = ["conf_option", "job_options", "with_options"]

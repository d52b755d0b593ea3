"""``funken run`` and ``funken explain``: a user's script, with options that its environments begin with.

``lifecycle/script.py`` runs the script as ``python JOB.py`` would; this module sets options, signals,
and displays around it.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any, NoReturn

import click

from funken import config
from funken.api.jobs.batch import WatchedJob, watch_batch_jobs
from funken.api.jobs.client import JobClient
from funken.api.jobs.watching import NotToRun, watch_jobs
from funken.cli.batch.progress import BatchProgressDisplay
from funken.cli.failures import ending_well, explained
from funken.cli.lifecycle.script import run_script
from funken.cli.progress import Progress
from funken.cli.service.detached import check_detachable, run_detached
from funken.cli.serving import Announcer, with_dashboard
from funken.config import Configuration, set_default_configuration
from funken.errors import InvalidConfiguration, JobExecutionError
from funken.plan.explain import explain_json, explain_text
from funken.plan.unexecuted import take_warnings

_STOP_SECONDS = 60.0
_DETACH_SECONDS = 180.0

# ---- options that several commands share


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


# ---- running a script


@contextmanager
def waiting_for_jobs() -> Iterator[None]:
    """Let jobs that the block started with ``execute_async`` run to their end; suspend them if it fails."""
    running: list[JobClient] = []  # changed by the threads of the jobs

    @contextmanager
    def count(client: JobClient) -> Iterator[None]:
        running.append(client)
        try:
            yield
        finally:
            running.remove(client)

    with watch_jobs(count):
        try:
            yield
            while client := next(iter(running), None):
                click.echo(f"The script has ended; {client.plan.name!r} still runs. Ctrl-C stops it.", err=True)
                client.get_job_execution_result().result()
        except BaseException:
            _stop(list(running))
            raise


def _stop(clients: Iterable[JobClient]) -> None:
    """Stop jobs; code of the user that never comes back ends with the process."""
    for client, stopped in [(client, client.suspend()) for client in clients]:
        try:
            stopped.result(_STOP_SECONDS)
        except TimeoutError:
            click.echo(f"{client.plan.name!r} has not stopped within {_STOP_SECONDS:.0f} s; it is left.", err=True)
        except JobExecutionError as error:
            click.echo(explained(error), err=True)


_pyflink = click.option(
    "--pyflink", is_flag=True, help="The script is one for PyFlink: let 'import pyflink' mean Funken."
)


def _check_script(context: click.Context, parameter: click.Parameter, script: str) -> str:
    if not context.params["as_module"]:
        click.Path(exists=True).convert(script, parameter, context)
    return script


_as_module = click.option(
    "--module",
    "-m",
    "as_module",
    is_flag=True,
    is_eager=True,
    help="JOB.py is the name of a module, as after python -m.",
)
_script = click.argument("script", metavar="JOB.py", callback=_check_script)
_arguments = click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)


@click.command(context_settings={"allow_interspersed_args": False})
@job_options(default_target="auto")
@click.option("--name", help="The job's name, where execute() gives none.")
@click.option("--from-savepoint", "-s", metavar="PATH", help="Start from this savepoint or checkpoint.")
@click.option(
    "--allow-non-restored-state", "-n", is_flag=True, help="Leave out state that the program has no operator for."
)
@click.option(
    "--allow-fresh-start", is_flag=True, help="Begin without state if none of the job's checkpoints can be used."
)
@_pyflink
@_as_module
@click.option(
    "--progress/--no-progress",
    default=None,
    help="Show rate, watermark and latency, or the operators of a batch program, on stderr; by default if that is a terminal.",
)
@click.option("--detach", "-d", is_flag=True, help="Run in the background: return when the job is known.")
@_script
@_arguments
def run(
    script: str,
    arguments: tuple[str, ...],
    configuration: Configuration,
    target: str,
    parallelism: int | None,
    name: str | None,
    from_savepoint: str | None,
    allow_non_restored_state: bool,
    allow_fresh_start: bool,
    pyflink: bool,
    as_module: bool,
    progress: bool | None,
    detach: bool,
) -> None:
    """Run a job: a Python script that ends in execute().

    The options are what every StreamExecutionEnvironment.get_execution_environment() of the script begins with; what
    the script sets itself wins. Everything after JOB.py belongs to the script. JOB.py may be a folder or a zip file that has a
    __main__.py.

    \b
    funken run job.py
    funken run -p 4 -D execution.buffer-timeout.interval=50ms job.py --input logs/
    funken run --target local job.py        # no Spark: for a debugger
    funken run --pyflink job.py             # a job written for PyFlink, as it is
    funken run -s savepoints/savepoint-5f2a91-0c7d job.py
    funken run --detach job.py              # in the background; then: funken list, funken logs
    """
    if detach:
        check_detachable(configuration)
        run_detached(_without_detach(click.get_current_context()), _DETACH_SECONDS)
        return
    with_options(configuration, target, parallelism)
    if name is not None:
        configuration.set(config.NAME, name)
    if from_savepoint is not None:
        configuration.set(config.RESTORE_PATH, from_savepoint)
    if allow_non_restored_state:
        configuration.set(config.RESTORE_IGNORING, True)
    if allow_fresh_start:
        configuration.set(config.ALLOW_FRESH_START, True)
    with ExitStack() as stack:
        signals = stack.enter_context(ending_well(script))
        set_default_configuration(configuration)
        if pyflink:
            importlib.import_module("funken.compat.pyflink")
        stack.enter_context(watch_jobs(Announcer().watch))
        if sys.stderr.isatty() if progress is None else progress:
            stack.enter_context(watch_jobs(Progress().watch))
            stack.enter_context(watch_batch_jobs(BatchProgressDisplay().watch))
        stack.enter_context(watch_jobs(signals.watch))
        stack.enter_context(waiting_for_jobs())
        _run_and_warn(script, arguments, as_module, pyflink)


def _run_and_warn(script: str, arguments: tuple[str, ...], as_module: bool, pyflink: bool) -> None:
    """Run a script; say which of its programs never ran, or which option it needs."""
    take_warnings(script)
    try:
        run_script(script, arguments, as_module)
    except Exception as error:
        take_warnings(script)  # what failed is said, and not that the rest never ran
        name = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        if name.partition(".")[0] == "pyflink" and not pyflink:
            error.add_note(f"A script for PyFlink runs with: funken run --pyflink {script}")
        raise
    for warning in take_warnings(script):
        click.echo(warning, err=True)


def _without_detach(context: click.Context) -> list[str]:
    """Return the arguments of the command, for a driver in the background, which has a server in any case."""
    values = context.params
    configuration: Configuration = values["configuration"]
    if values["target"] == "local" or configuration.get(config.TARGET) == "local":
        with_dashboard(configuration, wanted=True)
    found = [f"-D{key}={value}" for key, value in configuration.to_dict().items()] + ["--target", values["target"]]
    for name, option in (("parallelism", "-p"), ("name", "--name"), ("from_savepoint", "-s")):
        if values[name] is not None:
            found += [option, str(values[name])]
    flags = ("allow_non_restored_state", "allow_fresh_start", "pyflink")
    found += [f"--{name.replace('_', '-')}" for name in flags if values[name]]
    found += ["--module"] if values["as_module"] else []
    return [*found, "--no-progress", "--", values["script"], *values["arguments"]]


class _Planned(NotToRun):
    """Ends a script whose plan is known; no ``except Exception`` of the script may stop it."""


@click.command(context_settings={"allow_interspersed_args": False})
@job_options(default_target="auto")
@_pyflink
@_as_module
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_script
@_arguments
def explain(
    script: str,
    arguments: tuple[str, ...],
    configuration: Configuration,
    target: str,
    parallelism: int | None,
    pyflink: bool,
    as_module: bool,
    as_json: bool,
) -> None:
    """Print the plan of a job without running it.

    The script runs up to its first execute(), or collect() of a batch program, which ends it; what it prints goes to stderr.
    """
    plans: list[str] = []

    def plan_only(client: JobClient) -> NoReturn:
        plans.append(explain_json(client.plan) if as_json else explain_text(client.plan))
        raise _Planned

    def batch_plan_only(job: WatchedJob) -> NoReturn:
        plans.append(job.explain(as_json))
        raise _Planned

    with ending_well(script):
        set_default_configuration(with_options(configuration, target, parallelism))
        if pyflink:
            importlib.import_module("funken.compat.pyflink")
        try:
            with watch_jobs(plan_only), watch_batch_jobs(batch_plan_only), redirect_stdout(sys.stderr):
                run_script(script, arguments, as_module)
        except _Planned:
            pass
    if not plans:
        raise click.ClickException(f"{script} ended without a call of execute().")
    click.echo(plans[0])

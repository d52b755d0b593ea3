"""``funken run`` and ``funken explain``: a user's script, with options that its environments begin with.

``script.py`` runs the script as ``python JOB.py`` would; this module sets options, signals,
and displays around it.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

import click

from funken import config
from funken.api.jobs.client import JobClient
from funken.api.jobs.notebook import WatchedJob, watch_batch_jobs
from funken.api.jobs.results import NotToRun, watch_jobs
from funken.cli.failures import Announcer, ending_well, explained, job_options, with_dashboard, with_options
from funken.cli.progress import BatchProgressDisplay, Progress
from funken.cli.script import run_script
from funken.config import Configuration, set_default_configuration
from funken.errors import FunkenError, JobExecutionError
from funken.io.temporary import cache_folder
from funken.plan.explain import explain_json, explain_text
from funken.plan.unexecuted import take_warnings
from funken.rest.client import RestClient
from funken.rest.serving import available
from funken.rest.settings import ServerAddress, registered

# ---- ``funken run --detach``: a driver in the background, which goes on when the terminal is closed.
#
# The driver is a process of its own, in a session of its own. What it prints goes to a file that only the user can
# read; its job is found as any other, in the registry folder.


_POLL_SECONDS = 0.2
_KEPT = 100
_TAIL = 4_000


def output_folder() -> Path:
    """Return the folder of the output of detached drivers; raises ``ClickException`` if there is none."""
    cache = cache_folder()
    if cache is None:
        raise click.ClickException("this user has no folder for the output of the driver: set HOME or XDG_CACHE_HOME.")
    folder = cache / "drivers"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in sorted(folder.glob("*.out"), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise click.ClickException(f"the output of the driver cannot be written to {folder}: {error}.") from error
    return folder


def check_detachable(configuration: Configuration) -> None:
    """Raise ``ClickException`` if a job in the background would not be found."""
    if not available():
        raise click.ClickException("--detach needs packages that are not installed: pip install 'funken[rest]'.")
    if configuration.get(config.REST_ENABLED) == "false":
        raise click.ClickException(f"--detach needs a REST server; do not set {config.REST_ENABLED.key} to false.")


def run_detached(arguments: list[str], seconds: float, found: Callable[[], list[ServerAddress]] = registered) -> None:
    """Start ``funken run`` with these arguments in the background; return when its job is known, and print which it is.

    Raises ``ClickException`` if the driver ends before, or does not get so far in time; then it is left as it is.
    """
    output = output_folder() / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.out"
    with open(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        driver = subprocess.Popen(
            [sys.executable, "-m", "funken", "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    until = time.monotonic() + seconds
    while True:
        code = driver.poll()
        entry = None if code is not None else _job_of(driver.pid, found)
        if entry is not None:
            driver.returncode = 0  # it goes on when this process ends, which is nothing to warn of
            url, job = entry
            click.echo(f"{job['name']} ({job['jid']}) runs in process {driver.pid}: {url}/#/jobs/{job['jid']}")
            click.echo(f"What it prints: {output}")
            return
        if code == 0:
            click.echo(f"The program has ended. What it printed: {output}")
            return
        if code is not None:
            raise click.ClickException(f"the program has ended with exit code {code}. {output}:\n{_tail(output)}")
        if time.monotonic() >= until:
            driver.returncode = 0
            raise click.ClickException(
                f"no job of process {driver.pid} was seen within {seconds:g} s; it continues. Its output: {output}"
            )
        time.sleep(_POLL_SECONDS)


def _job_of(pid: int, found: Callable[[], list[ServerAddress]]) -> tuple[str, dict[str, Any]] | None:
    """Return the address and the newest job of a process, if it shows one."""
    for address in found():
        if address.pid == pid:
            try:
                jobs = RestClient.of(address).get("jobs", "overview")["jobs"]
            except FunkenError:
                continue  # it is about to be there
            if jobs:
                return address.url, max(jobs, key=lambda job: int(job["start-time"]))
    return None


def _tail(path: Path) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read().decode(errors="replace").rstrip()


_STOP_SECONDS = 60.0
_DETACH_SECONDS = 180.0

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


_NO_PROGRAMS = {
    ".jar": "a program of Java. Funken runs programs of Python: see the guide for users of Flink.",
    ".sql": "a script of SQL. Run it with: funken sql -f FILE.",
}


def _check_script(context: click.Context, parameter: click.Parameter, script: str) -> str:
    if not context.params["as_module"]:
        click.Path(exists=True).convert(script, parameter, context)
        other = next((text for ending, text in _NO_PROGRAMS.items() if script.endswith(ending)), None)
        if other is not None:
            raise click.BadParameter(f"{script!r} is {other}")
        if script.endswith(".ipynb"):
            raise click.BadParameter(
                f"{script!r} is a notebook, and no script. Run its cells in Jupyter, or make a script of it: "
                "jupyter nbconvert --to script."
            )
        if os.path.isdir(script) and not os.path.exists(os.path.join(script, "__main__.py")):
            raise click.ClickException(
                f"can't find '__main__' module in {script!r}: it is a folder. Name the script in it, or a module with -m, as in "
                "-m package.job."
            )
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
    given = (
        (config.NAME, name), (config.RESTORE_PATH, from_savepoint),
        (config.RESTORE_IGNORING, allow_non_restored_state or None), (config.ALLOW_FRESH_START, allow_fresh_start or None),
    )  # fmt: skip
    for option, value in given:
        if value is not None:
            configuration.set(option, value)
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

    The script runs up to its first execute(), or collect() of a batch program, which ends it; its output goes to stderr.
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

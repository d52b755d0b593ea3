"""Every wait in the package has a bound, or a reason for having none: nothing hangs, and no call keeps a process alive.

A wait without a time is a fact, by its function and its text. ``WITHOUT_A_BOUND`` has those that are argued; it may only
shrink. Code that another process, a disk, or a function of the user may keep from answering waits with a time, and says so.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "funken"

DONE = "the future is done here"
OWN = "a daemon thread waits for its own work; its owner ends it by a last item"
PROGRAM = "the program asks for the end of its own job, which may run for ever; a signal ends the wait"
STOPS = "the end of a job that is being stopped, which its runner bounds"
BEATS = "heartbeats close a connection whose peer is silent"
NO_WAIT = "counts, or takes a lock that is free"

WITHOUT_A_BOUND = {
    "api/jobs/client.py: CloseableIterator.__next__: self._client.get_job_execution_result().result()": PROGRAM,
    "api/jobs/client.py: CloseableIterator._close: stop().result()": STOPS,
    "api/jobs/client.py: ReporterThread._run: self._ended.wait()": OWN,
    "api/jobs/notebook.py: LiveJob._picture: client.get_job_status().result()": DONE,
    "api/jobs/results.py: JobDisplay.__repr__: self.get_job_status().result()": DONE,
    "api/jobs/results.py: JobDisplay._repr_html_: self.get_job_status().result()": DONE,
    "api/jobs/results.py: when_over.settle: made.result()": DONE,
    "cli/run.py: waiting_for_jobs: client.get_job_execution_result().result()": PROGRAM,
    "cli/signals.py: LastSavepoints._run: self._begun.get()": OWN,
    "cli/signals.py: LastSavepoints._say: made.result()": DONE,
    "cli/sql.py: SqlClient._show_jobs: job.get_job_status().result()": DONE,
    "cli/sql.py: SqlClient._stop: job.cancel().result()": STOPS,
    "cli/sql.py: SqlClient._stop: job.stop_with_savepoint(record.drain).result()": "a savepoint, which has a timeout",
    "cli/sql.py: SqlClient.close: job.cancel().result()": STOPS,
    "cli/sql.py: SqlClient.wait: job.get_job_execution_result().result()": PROGRAM,
    "cli/sql.py: _ended_by_ctrl_c: job.cancel().result()": STOPS,
    "cli/sql.py: _session: session.wait()": PROGRAM,
    "cli/warm.py: HandOver._move: client.stop_with_savepoint(False).result()": "a savepoint, which has a timeout",
    "compat/pyflink/jobs.py: JobClient.get_job_execution_result.take: done.result()": DONE,
    "compat/pyflink/table_environments.py: TableEnvironment.execute: client.get_job_execution_result().result()": PROGRAM,
    "compat/pyflink/testing.py: exec_insert_table: "
    "table.execute_insert(table_path).get_job_client().get_job_execution_result().result()": PROGRAM,
    "connectors/kafka/sink.py: TransactionalKafkaWriter.close: unused.result()": OWN,
    "connectors/sql/database.py: Background.take: future.result()": DONE,
    "dataframe/frame.py: DataFrame._insert: self._table.execute_insert(target, overwrite=overwrite).wait()": PROGRAM,
    "io/filesystem.py: _in_time: result.result()": DONE,
    "io/filesystem.py: _in_time: why.result()": DONE,
    "io/threads.py: DaemonThreadPool._run: self._calls.get()": OWN,
    "io/threads.py: DaemonThreadPool.shutdown: thread.join()": "the caller asks for it, as of any executor",
    "operators/coordinators.py: Collector.put: "
    "self._changed.wait_for(lambda: self._closed or given_up() or self._has_room())": "each end of the queue wakes it",
    "runtime/chain/log_capture.py: LogCapture._run: self._logged.wait()": OWN,
    "runtime/chain/log_capture.py: LogCapture._take: self.acquire()": "the lock of a handler, held for an append",
    "runtime/driver/coordinators.py: BackgroundWorker._run: self._work.get()": OWN,
    "runtime/driver/coordinators.py: CoordinatorWorker.call: result.result()": DONE,
    "spark/control/channel.py: _connect_once: connection.settimeout(None)": BEATS,
    "spark/control/tls.py: TlsConnection.__init__: connection.settimeout(None)": BEATS,
    "spark/task_shell.py: TaskShell.admit: self._credits.get()": "the loop of this very process gives them, or ends it",
    "spark/task_shell.py: TaskShell.deliver_to.write: snapshots.get()": OWN,
    "state/rocksdb/backend.py: RocksDBBackend.cached_entries: self._shared.objects.join()": NO_WAIT,
    "state/rocksdb/backend.py: Rows.__init__: limit.join()": NO_WAIT,
    "table/environment.py: TableEnvironment.insert: result.wait()": PROGRAM,
    "table/notebook.py: SqlMagic._rows: job.cancel().result()": STOPS,
    "table/physical.py: _async_correlate: calls.wait()": NO_WAIT,
    "table/physical.py: _called: calls.wait()": NO_WAIT,
    "timing/clock.py: Wakeup.__init__: self._set.acquire()": NO_WAIT,
    "timing/clock.py: result_of: future.result()": DONE,
}


def calls(node: ast.AST, owner: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls below a node, with the function that each is in."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if isinstance(child, ast.Call):
            yield ".".join(owner), child
        yield from calls(child, (*owner, child.name) if named else owner)


def queues(tree: ast.Module) -> set[str]:
    """Return the names of queues of a module: what ends with ``Queue`` is assigned to them, or declares them."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign([target], value):
                kind = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
            case ast.AnnAssign(target, kind_of):
                kind = ast.unparse(kind_of).partition("[")[0]
            case _:
                continue
        if kind.endswith(("SimpleQueue", "TimedQueue", "queue.Queue")):
            found.add(ast.unparse(target).removeprefix("self."))
    return found


TIMED = {"timeout", "seconds", "block", "blocking"}


def waits(call: ast.Call, held: set[str]) -> bool:
    """Return True if a call may wait, and is given no time."""
    if not isinstance(call.func, ast.Attribute) or any(each.arg in TIMED for each in call.keywords):
        return False
    receiver, name, count = ast.unparse(call.func.value), call.func.attr, len(call.args)
    match name:
        case "join" | "wait" | "result" | "acquire" | "communicate":
            return not count
        case "wait_for":
            return count == 1
        case "get":
            return not count and receiver.removeprefix("self.") in held
        case "settimeout":
            return ast.unparse(call.args[0]) == "None"
        case "run" | "check_output" | "check_call" | "call":
            return receiver == "subprocess"
        case "create_connection":
            return count == 1
        case "urlopen":
            return count < 3
    return False


def facts(source: str, name: str) -> set[str]:
    tree = ast.parse(source)
    held = queues(tree)
    return {f"{name}: {owner}: {ast.unparse(call)[:100]}" for owner, call in calls(tree) if waits(call, held)}


def of_package(find) -> set[str]:
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        found |= find(path.read_text(), str(path.relative_to(SOURCE)))
    return found


def test_each_wait_has_a_bound_or_a_reason():
    found = of_package(facts)

    assert sorted(found - set(WITHOUT_A_BOUND)) == []
    assert sorted(set(WITHOUT_A_BOUND) - found) == [], "no longer needed"


@pytest.mark.parametrize(
    "line",
    [
        "thread.join()",
        "future.result()",
        "self._ended.wait()",
        "condition.wait_for(lambda: done)",
        "lock.acquire()",
        "items.get()",
        "subprocess.run(command)",
        "connection.settimeout(None)",
        "socket.create_connection(address)",
    ],
)
def test_a_wait_without_a_bound_is_seen(line):
    assert len(facts(f"items = SimpleQueue()\ndef f():\n    {line}\n", "module.py")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "thread.join(5)",
        "','.join(words)",
        "future.result(timeout=3)",
        "condition.wait_for(ready, 0.1)",
        "lock.acquire(timeout=1)",
        "items.get(timeout=1)",
        "values.get('a')",
        "state.get()",
        "subprocess.run(command, timeout=10)",
    ],
)
def test_other_calls_are_left_alone(line):
    assert facts(f"items = SimpleQueue()\ndef f():\n    {line}\n", "module.py") == set()


# ---- Threads: none keeps the process alive, and none leaves a future without a result.


def lasting_threads(source: str, name: str) -> set[str]:
    """Find threads that Python waits for at its end."""
    tree = ast.parse(source)
    daemons = {ast.unparse(node.targets[0]) for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    managed = {
        id(item.context_expr) for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items
    }  # which wait for calls that have bounds
    found = set()
    for owner, call in calls(tree):
        kind = ast.unparse(call.func).rpartition(".")[2]
        if kind == "Thread" and not any(each.arg == "daemon" for each in call.keywords):
            found.add(f"{name}: {owner}: a thread")
        if kind == "Timer" and not any(target.endswith(".daemon") for target in daemons):
            found.add(f"{name}: {owner}: a timer")
        if kind == "ThreadPoolExecutor" and id(call) not in managed:
            found.add(f"{name}: {owner}: a pool")
    return found


def test_no_thread_keeps_the_process_alive():
    assert sorted(of_package(lasting_threads)) == []


@pytest.mark.parametrize(
    "line", ["threading.Thread(target=f).start()", "threading.Timer(1, f).start()", "pool = ThreadPoolExecutor(2)"]
)
def test_a_thread_that_lasts_is_seen(line):
    assert len(lasting_threads(f"def f():\n    {line}\n", "module.py")) == 1


def unsettled(source: str, name: str) -> set[str]:
    """Find handlers that pass only some exceptions on to a future: another one leaves whoever waits without an answer."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        for handler in node.handlers if isinstance(node, ast.Try) else []:
            kinds = "" if handler.type is None else ast.unparse(handler.type)
            settles = any(
                isinstance(each, ast.Attribute) and each.attr == "set_exception" for each in ast.walk(handler)
            )
            if settles and kinds != "BaseException":
                found.add(f"{name}: line {handler.lineno}: except {kinds}")
    return found


def test_each_exception_settles_its_future():
    assert sorted(of_package(unsettled)) == []


def test_a_future_that_may_stay_open_is_seen():
    body = "try:\n    f()\nexcept OSError as error:\n    future.set_exception(error)\n"
    assert unsettled(body, "module.py") == {"module.py: line 3: except OSError"}

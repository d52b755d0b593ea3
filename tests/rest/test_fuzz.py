"""The API under requests that schemathesis makes of its OpenAPI document: every answer is declared, and none is a 500."""

from collections import Counter
from contextlib import nullcontext, suppress
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from funken.rest import server
from funken.rest.settings import RestSettings
from funken.rest.views.jobs import vertex_id
from tests.rest.conftest import JOB, FakeJob, picture

schemathesis = pytest.importorskip("schemathesis")
pytest.importorskip("uvicorn")

EXAMPLES = 5
KNOWN = {
    "jobid": JOB,
    "vertexid": vertex_id(picture().graph.vertices[1]),
    "subtaskindex": 0,
    "checkpointid": 7,
    "attempt": 0,
}


@pytest.fixture(scope="module")
def url():
    running = server.RestServer(RestSettings())
    running.jobs.add(FakeJob())
    yield running.url
    running.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_request_makes_a_response_that_is_not_declared(url):
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    statuses = Counter()

    def check(operation, mode, known):
        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def run(case):
            if known:  # no example finds the ids of the job by itself
                case.path_parameters = {
                    name: KNOWN.get(name, value) for name, value in (case.path_parameters or {}).items()
                }
            response = case.call()
            statuses[response.status_code] += 1
            declared = operation.definition.raw["responses"]
            status = str(response.status_code)
            assert status in {*declared, "405"}, (case.method, case.formatted_path, response.text)
            kinds = declared.get(status, {}).get("content", {"application/json": {}})
            assert response.headers["content-type"][0].partition(";")[0] in kinds

        run()

    operations = [each.ok() for each in schema.get_all_operations()]
    for operation, mode, known in product(operations, schemathesis.GenerationMode, (False, True)):
        # Where every value is allowed, there are no negative examples.
        with suppress(Unsatisfiable) if mode is schemathesis.GenerationMode.NEGATIVE else nullcontext():
            check(operation, mode, known)

    assert len(operations) > 30
    assert statuses[200] > 0 and statuses[202] > 0 and statuses[404] > 0 and statuses[400] > 0

"""Who may ask: tokens, DNS rebinding, requests from pages of other sites."""

import pytest

from funken.rest.app import rejection
from funken.rest.settings import RestSettings
from tests.rest.conftest import JOB

TOKEN = "a-token-of-some-length"
LOCAL = RestSettings()
REMOTE = RestSettings(address="driver.example.org", bind_address="0.0.0.0", token=TOKEN)
OWN = {"host": "127.0.0.1:8081"}


def rejected(settings, headers, method="GET", public=False):
    found = rejection(settings, method, "/jobs", headers, public)
    return None if found is None else found[0]


@pytest.mark.parametrize("host", ["127.0.0.1:8081", "localhost:8081", "LOCALHOST", "[::1]:8081", "127.0.0.5"])
def test_names_of_loopback_are_own_names(host):
    assert rejected(LOCAL, {"host": host}) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1.evil.example:8081", "localhost@evil.example", "[", "10.0.0.1"]
)
def test_a_name_that_was_made_to_point_here_is_rejected(host):
    assert rejected(LOCAL, {"host": host}) == 403


def test_with_a_token_every_request_carries_it():
    assert rejected(REMOTE, {"host": "x"}) == 401
    assert rejected(REMOTE, {"host": "x", "authorization": "Bearer wrong"}) == 401
    assert rejected(REMOTE, {"host": "x", "authorization": f"Basic {TOKEN}"}) == 401
    assert rejected(REMOTE, {"host": "x", "authorization": f"Bearer {TOKEN}"}) is None
    assert rejected(REMOTE, {"host": "x", "authorization": "Bearer \xe4"}) == 401


def test_the_page_needs_no_token():
    assert rejected(REMOTE, {"host": "x"}, public=True) is None
    assert rejected(LOCAL, {"host": "evil.example"}, public=True) == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, None),  # not a browser
        ({"origin": "http://127.0.0.1:8081", "sec-fetch-site": "same-origin"}, None),
        ({"sec-fetch-site": "none"}, None),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9090"}, 403),  # another server of this machine
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_a_page_of_another_site_changes_nothing(headers, status):
    assert rejected(LOCAL, OWN | headers, "POST") == status
    assert rejected(LOCAL, OWN | headers, "PATCH") == status
    assert rejected(LOCAL, OWN | headers, "GET") is None


def test_the_application_applies_the_checks(api, job):
    assert api.get("/jobs", host="evil.example").status == 403
    assert api.patch(f"/jobs/{JOB}", origin="http://evil.example").json["errors"][0].startswith("Requests that change")
    assert job.asked == []


def test_a_request_without_its_token_is_told_what_is_missing(api_with, job):
    answer = api_with(token=TOKEN).get("/jobs")

    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "rest.authentication.token-file" in answer.json["errors"][0]
    assert api_with(token=TOKEN).get("/jobs", authorization=f"Bearer {TOKEN}").status == 200


def test_every_response_forbids_scripts_of_others(api):
    for path in ("/jobs", "/nothing"):
        headers = api.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    assert api.get("/jobs").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("sent", "text"),
    [({}, "A token is needed"), ({"authorization": "Bearer another-token-of-some-length"}, "The token is wrong")],
)
def test_a_wrong_token_is_told_from_none(sent, text):
    settings = RestSettings(token="a-token-of-some-length")

    status, reason = rejection(settings, "GET", "/jobs", {"host": "localhost"} | sent)

    assert (status, reason.startswith(text)) == (401, True)

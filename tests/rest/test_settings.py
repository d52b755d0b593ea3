"""Where a server listens, and what it needs beyond loopback."""

import pytest

from funken import Configuration, InvalidProgram
from funken.errors import RestServerFailed
from funken.rest.settings import rest_settings

TOKEN = "a-token-of-some-length"


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


def settings(**options):
    return rest_settings(Configuration({f"rest.{name.replace('_', '-')}": value for name, value in options.items()}))


def failure(configuration):
    with pytest.raises(RestServerFailed) as error:
        rest_settings(Configuration(configuration))
    return str(error.value)


def test_by_default_it_is_a_free_port_of_loopback():
    found = settings()

    assert (found.bind_address, found.ports, found.token, found.scheme) == ("127.0.0.1", (0,), "", "http")


def test_the_address_that_is_bound_is_that_of_clients_unless_it_is_named():
    assert settings(address="localhost").bind_address == "localhost"
    assert settings(address="localhost", bind_address="127.0.0.2").bind_address == "127.0.0.2"


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.1.2.3", "driver.example.org"])
def test_beyond_loopback_a_token_is_needed(address, token_file):
    text = failure({"rest.address": address})

    assert "so requests need a token" in text and "rest.authentication.token-file" in text
    found = rest_settings(Configuration({"rest.address": address, "rest.authentication.token-file": token_file}))
    assert found.token == TOKEN


def test_a_name_of_loopback_does_not_open_another_address():
    assert "need a token" in failure({"rest.address": "localhost", "rest.bind-address": "0.0.0.0"})


def test_a_token_does_not_show(token_file):
    found = rest_settings(Configuration({"rest.authentication.token-file": token_file}))

    assert TOKEN not in repr(found)


def test_a_token_that_others_can_read_is_none(token_file):
    token_file.chmod(0o640)

    assert "chmod 600" in failure({"rest.authentication.token-file": token_file})


@pytest.mark.parametrize("content", ["", "short", "two words of some length", "caf\xe9" * 8])
def test_a_token_that_can_be_guessed_or_not_be_sent_is_none(token_file, content):
    token_file.write_text(content)

    assert "rest.authentication.token-file" in failure({"rest.authentication.token-file": token_file})


def test_what_is_missing_is_named(tmp_path):
    assert "cannot read" in failure({"rest.authentication.token-file": tmp_path / "none"})
    assert "rest.ssl.certificate names" in failure({"rest.ssl.certificate": tmp_path / "none.pem"})
    assert "no rest.ssl.certificate" in failure({"rest.ssl.key": tmp_path / "key.pem"})


@pytest.mark.parametrize(
    ("option", "value"),
    [("rest.port", 70_000), ("rest.port", "web"), ("rest.bind-port", "9-3"), ("rest.bind-port", "a")],
)
def test_a_port_that_is_none_is_refused_where_it_is_set(option, value):
    with pytest.raises(InvalidProgram, match=option):
        Configuration({option: value})

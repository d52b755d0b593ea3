"""The address of a job is printed when it begins, and opened if that is wanted."""

from types import SimpleNamespace

from funken import Configuration, config
from funken.cli import failures as serving
from funken.cli.failures import Announcer, with_dashboard


def job(url, name="words"):
    return SimpleNamespace(get_web_interface_url=lambda: url, get_job_id=lambda: "abc", plan=SimpleNamespace(name=name))


def test_the_address_of_each_job_is_printed_and_the_first_is_opened(capsys):
    opened = []
    announcer = Announcer(open_browser=True, browse=opened.append)
    for name in ("one", "other"):
        with announcer.watch(job("http://127.0.0.1:1", name)):
            pass

    assert opened == ["http://127.0.0.1:1/#/jobs/abc"]
    assert capsys.readouterr().err == (
        "Dashboard of 'one': http://127.0.0.1:1/#/jobs/abc\nDashboard of 'other': http://127.0.0.1:1/#/jobs/abc\n"
    )


def test_a_job_without_a_server_says_so_only_if_its_dashboard_was_wanted(capsys):
    with Announcer().watch(job(None)):
        assert capsys.readouterr().err == ""
    with Announcer(open_browser=True).watch(job(None)):
        assert "pip install 'funken[rest]'" in capsys.readouterr().err


def test_a_dashboard_that_is_wanted_is_served_in_this_process_too(monkeypatch):
    monkeypatch.setattr(serving, "available", lambda: True)

    assert with_dashboard(Configuration(), True).get(config.REST_ENABLED) == "true"
    assert with_dashboard(Configuration(), False).get(config.REST_ENABLED) == "auto"
    assert with_dashboard(Configuration({"rest.enabled": False}), True).get(config.REST_ENABLED) == "false"

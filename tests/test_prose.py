"""The prose of the documents: the terms of this project, and what proselint finds."""

import pytest

from scripts.prose import documents, prose, proselint, terms, wrong_terms

ROOT_PAGES = {page.name for page in documents()}


def test_the_pages_are_there():
    assert {"README.md", "ARCHITECTURE.md", "performance.md", "faq.md"} <= ROOT_PAGES
    assert len(documents()) > 100


def test_code_is_no_prose():
    page = "Use `time-out`.\n\n```python\ntime-out\n```\n\nA [time](time-out.md).\n\n| time-out |\n"
    assert list(wrong_terms(page)) == []
    assert len(prose(page)) == len(page)


def test_a_wrong_term_is_found_with_its_line():
    assert list(wrong_terms("One.\nA Time-out.\n")) == [(2, "'Time-out': write timeout")]


def test_every_term_says_what_to_write():
    assert all(right for _, right in terms())


def test_no_page_has_a_wrong_term():
    assert [(page.name, *each) for page in documents() for each in wrong_terms(page.read_text())] == []


def test_proselint_finds_nothing():
    pytest.importorskip("proselint")
    assert list(proselint(documents())) == []


def test_and_would_find_something(tmp_path):
    pytest.importorskip("proselint")
    page = tmp_path / "page.md"
    page.write_text("Fine.\n\nIt is very, very unique.\n")
    assert {line for _, line, _ in proselint([page])} == {3}

"""The prose of the documents and docstrings: the terms of this project, and the findings of proselint."""

import pytest

from scripts.prose import (
    ROOT,
    documents,
    hard_sentences,
    is_plain,
    prose,
    proselint,
    questions,
    sentences,
    terms,
    wrong_terms,
)

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


def test_no_page_has_a_hard_sentence():
    pages = [page for page in documents() if is_plain(page)]
    hard = [(page.name, *each) for page in pages for each in hard_sentences(page.read_text())]

    assert len(list(sentences((ROOT / "README.md").read_text()))) > 50
    assert len(pages) > 70
    assert hard == []


def test_a_decision_is_a_page():
    pages = [page for page in documents() if page.parent.name == "decisions"]

    assert len(pages) > 80
    assert {page.name: words for page in pages if (words := len(page.read_text().split())) > 600} == {}


@pytest.mark.parametrize(
    ("sentence", "fault"),
    [
        ("`stop` is refused; without drain, the savepoint has what was on its way.", "'what'"),
        ("What comes later than the strategy allows is dropped.", "'What'"),
        ("| rule | what it decides |", "'what'"),
        ("Keep data in it, not what is open.", "'what'"),
        ("The fate of the checkpoints depends on how the job ended.", "'depends on how'"),
        ("`explain()` says how many there are.", "'says how'"),
        ("A marker goes through the loop, and tells whether it is empty.", "'tells whether'"),
        ("The stream that comes back decides how its records are spread:", "'decides how'"),
        (
            "An operator on a keyed stream is given its records when its input has ended: one key after the other, and the\n"
            "records of a key in the order of their timestamps, those of two connected inputs among each other.",
            "40 words",
        ),
    ],
)
def test_sentences_that_were_there_are_found(sentence, fault):
    assert [fault in text for _, text in hard_sentences(f"# Title\n\n{sentence}\n")] == [True]


def test_headings_code_and_addresses_are_not_sentences():
    page = "# What it costs\n\n```\nwhat is this\n```\n\nSee [the costs](a.md#what-it-costs) and `what`.\n"

    assert list(hard_sentences(page)) == []


SOURCES = sorted((ROOT / "src" / "funken").rglob("*.py"))


def test_docstrings_are_noun_phrases_and_imperatives():
    assert len(SOURCES) > 500
    assert [f"{path}:{line}: {text}" for path in SOURCES for line, text in questions(path.read_text())] == []


@pytest.mark.parametrize("text", ["What a job needs.", "Whether it is over.", "How many there are.", "Who leads."])
def test_docstrings_that_begin_with_a_clause_are_found(text):
    source = f'def f():\n    """{text}"""\n\n\nasync def g():\n    """{text}\n\n    More.\n    """\n'

    assert list(questions(source)) == [(2, text), (6, text)]


def test_docstrings_with_a_clause_further_on_are_not_taken_for_such():
    assert list(questions('class A:\n    """Whatever it is: how many there are."""\n\n\ndef f(): ...\n')) == []

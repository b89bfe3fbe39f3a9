# SPDX-License-Identifier: Apache-2.0
"""Words that pages explain mean there what the glossary says."""

import re
from pathlib import Path

import pytest

import vp_dashboard

TEMPLATES = Path(vp_dashboard.__file__).parent / "templates/vp_dashboard"
GLOSSARY = (Path(__file__).parents[3] / "doc/source/glossary.md").read_text()
ENTRY = re.compile(r'{% if "(\w+)" in words %}<dt>{% trans "(.+?)" %}</dt><dd>{% trans "(.+?)" %}')
EXPLAINED = {
    key: (name, text) for key, name, text in ENTRY.findall((TEMPLATES / "_words.html").read_text())
}
USED = {
    path.name: re.findall(r'"(\w+)"', found[1])
    for path in sorted(TEMPLATES.rglob("*.html"))
    if (found := re.search(r"{% vp_glossary ([^%]+) %}", path.read_text()))
}


def plain(markdown: str) -> str:
    """Without links to pages that a reader of Horizon does not have, and without marks."""
    text = re.sub(r" ?See \[[^\]]*\]\([^)]*\)\.", "", markdown)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "").replace("*", "")


ROWS = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", GLOSSARY, re.M))
TERMS = {plain(term): plain(text) for term, text in ROWS.items()}


@pytest.mark.parametrize("key", EXPLAINED)
def test_a_word_means_what_the_glossary_says(key):
    name, text = EXPLAINED[key]
    assert TERMS[name] == text


@pytest.mark.parametrize("page", USED)
def test_a_page_explains_words_that_are_there(page):
    assert set(USED[page]) <= set(EXPLAINED)


def test_no_word_is_explained_that_no_page_has():
    assert set(EXPLAINED) == {word for words in USED.values() for word in words}


def test_the_sentences_on_states_are_those_of_the_glossary():
    said = re.findall(r'<p>{% trans "(.+?)" %}</p>', (TEMPLATES / "_words.html").read_text())
    assert said
    assert all(one in GLOSSARY.replace("\n", " ") for one in said)

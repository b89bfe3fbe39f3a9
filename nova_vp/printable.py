# SPDX-License-Identifier: Apache-2.0
"""Texts that came from outside, as a line of a log or of a terminal may show them."""


def printable(text: str) -> str:
    """A name could hold what a terminal obeys, or begin a line that looks like one of ours."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)

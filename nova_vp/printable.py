# SPDX-License-Identifier: Apache-2.0
"""Text from outside, as it may stand in a log or on a terminal."""

MOST_OF_FAULT = 200


def printable(text: str, most: int | None = None) -> str:
    """A name could hold what a terminal obeys, or begin a line that looks like one of ours. Only
    the first `most` characters, if that is given."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:most])


def fault(exc: Exception) -> str:
    """What is wrong in a file or message: that may be as long as the file."""
    return printable(repr(exc), MOST_OF_FAULT)

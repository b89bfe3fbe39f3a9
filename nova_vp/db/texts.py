# SPDX-License-Identifier: Apache-2.0
"""Texts on their way into columns."""


def storable(text: str) -> str:
    """JSON can say characters that databases refuse, and what can never be stored would be tried
    for ever, or keep what belongs to others waiting."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")

# SPDX-License-Identifier: Apache-2.0
"""What a receiver raises of a message; no more than that."""


class BadMessage(Exception):
    """The message is not one of ours: shape, size or version. It is counted and dropped."""

    # Under which it crosses to whoever called: older agents and services know no other.
    __module__ = "nova_vp.wire"

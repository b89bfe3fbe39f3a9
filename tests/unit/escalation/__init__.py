# SPDX-License-Identifier: Apache-2.0
"""Tests of `openstack vp …`."""

import vp_api  # noqa: F401  (first: it chooses threads before oslo.messaging is imported)

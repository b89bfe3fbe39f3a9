# SPDX-License-Identifier: Apache-2.0
"""Who may claim something of a guest: one folder each. They do not know of each other.

Read `base` first: it says what a controller is.
"""

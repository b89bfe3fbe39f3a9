# SPDX-License-Identifier: Apache-2.0
"""Who may want something of a guest: one folder each. They do not know of each other."""

# SPDX-License-Identifier: Apache-2.0
"""Watcher, OpenStack's own optimiser, at work on the lab: its services, and numbers to feed it."""

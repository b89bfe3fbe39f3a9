# SPDX-License-Identifier: Apache-2.0
"""Tempest's plugin: API tests and scenarios against any deployment with our service in its catalog.

It knows a deployment by keystone's catalog and tempest.conf alone, and imports none of our other
packages: what it expects is written here a second time.
"""

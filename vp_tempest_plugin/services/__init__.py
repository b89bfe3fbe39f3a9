# SPDX-License-Identifier: Apache-2.0
"""The client that tempest makes for each set of credentials."""

from vp_tempest_plugin.services.performance_isolation import PerformanceIsolationClient

__all__ = ["PerformanceIsolationClient"]

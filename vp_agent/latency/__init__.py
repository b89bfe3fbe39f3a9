# SPDX-License-Identifier: Apache-2.0
"""How operators have latency measured where applications do not report it: sources and a poller."""

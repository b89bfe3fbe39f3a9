# SPDX-License-Identifier: Apache-2.0
"""From counts to what is wrong: samples, states, and who is degraded by whom."""

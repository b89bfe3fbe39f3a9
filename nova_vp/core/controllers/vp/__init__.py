# SPDX-License-Identifier: Apache-2.0
"""Mitigation of interference (thesis 2013, 2.1.3): read `controller.py` first."""

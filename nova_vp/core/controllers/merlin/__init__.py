# SPDX-License-Identifier: Apache-2.0
"""Elastic demands for CPU (thesis 2013, chapter 3): read `controller.py` first."""

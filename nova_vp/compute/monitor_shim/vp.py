# SPDX-License-Identifier: Apache-2.0
"""Installed as `nova/compute/monitors/cpu/vp.py`: Nova takes monitors from its own folder alone."""

from nova_vp.compute.monitor import Monitor

__all__ = ["Monitor"]

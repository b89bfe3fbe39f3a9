# SPDX-License-Identifier: Apache-2.0
"""Monitors of overlays on the host itself: what they see of servers, without their applications."""

# SPDX-License-Identifier: Apache-2.0
"""The commands `vp-manage` and `vp-status`."""

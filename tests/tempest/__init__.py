# SPDX-License-Identifier: Apache-2.0
"""Tempest against the lab, with all of ours and without: the cloud must not behave otherwise."""

# SPDX-License-Identifier: Apache-2.0
"""Panels of operators."""

# SPDX-License-Identifier: Apache-2.0
"""Processes of two successive releases on one message bus and one database."""

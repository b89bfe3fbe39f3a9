# SPDX-License-Identifier: Apache-2.0
"""Recordings of what one host's core saw and decided, and the codec that they are written with."""

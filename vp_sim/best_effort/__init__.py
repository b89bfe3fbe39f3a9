# SPDX-License-Identifier: Apache-2.0
"""A latency-critical server beside best-effort ones on one socket (Padala, 2020, chapter 5)."""

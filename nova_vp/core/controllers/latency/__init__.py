# SPDX-License-Identifier: Apache-2.0
"""The controller `latency`: best-effort servers get what latency-critical ones leave."""

# SPDX-License-Identifier: Apache-2.0
"""A real Horizon with vp_dashboard, for tests and the lab, installed as its page says."""

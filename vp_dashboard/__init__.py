# SPDX-License-Identifier: Apache-2.0
"""Panels of Horizon: what vp-api tells the user of the session, and nothing else.

`api.py` is all that asks vp-api. `heat.py` is pure.
"""

# SPDX-License-Identifier: Apache-2.0
"""The agent's loop: samples, decisions, the executor that applies them, and operators' commands.

Start reading at `tick.py`.
"""

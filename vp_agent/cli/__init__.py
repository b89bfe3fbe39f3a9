# SPDX-License-Identifier: Apache-2.0
"""The command `vp-agent` and its subcommands."""

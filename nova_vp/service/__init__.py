# SPDX-License-Identifier: Apache-2.0
"""What every long-running process of ours needs: signals, health, metrics, its run directory."""

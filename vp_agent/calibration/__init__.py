# SPDX-License-Identifier: Apache-2.0
"""What this host's memory bears: load it, time it, and draw the limits."""

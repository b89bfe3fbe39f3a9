# SPDX-License-Identifier: Apache-2.0
"""What every span of time that somebody can set has in common."""

LONGEST_S = 366 * 86400.0
"""More is never meant, and neither calendars nor locks take what is much more."""

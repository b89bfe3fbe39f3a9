# SPDX-License-Identifier: Apache-2.0
"""Better places for guests whose state never changed (thesis 2013, 2.3.1)."""

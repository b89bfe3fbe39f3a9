# SPDX-License-Identifier: Apache-2.0
"""CPU and memory of a guest that arrives (thesis 2013, 2.2)."""

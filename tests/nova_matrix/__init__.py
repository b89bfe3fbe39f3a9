# SPDX-License-Identifier: Apache-2.0
"""Each supported release of Nova with what of ours runs inside it."""

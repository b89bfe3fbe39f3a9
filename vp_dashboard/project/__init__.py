# SPDX-License-Identifier: Apache-2.0
"""What a project sees of its own servers."""

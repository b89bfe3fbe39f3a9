# SPDX-License-Identifier: Apache-2.0
"""What requests may carry, one file per resource with the name of its handlers."""

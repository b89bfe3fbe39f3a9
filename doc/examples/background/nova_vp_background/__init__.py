# SPDX-License-Identifier: Apache-2.0
"""A controller of another package: the example of nova-vp's documentation."""

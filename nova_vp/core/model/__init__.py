# SPDX-License-Identifier: Apache-2.0
"""What is known of a host, what can be predicted from it, and how caps are kept."""

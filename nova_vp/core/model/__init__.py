# SPDX-License-Identifier: Apache-2.0
"""What is known of a host and what can be predicted from it. No controller's wishes."""

# SPDX-License-Identifier: Apache-2.0
"""One file for each resource, and one for personas, versions and what is wrong with a request."""

# SPDX-License-Identifier: Apache-2.0
"""What leaves the API: `tenant.py` by an explicit allow-list, `operator.py` everything."""

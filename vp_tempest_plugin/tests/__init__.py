# SPDX-License-Identifier: Apache-2.0
"""API tests ask what each operation promises; scenarios, what a whole cloud does."""

# SPDX-License-Identifier: Apache-2.0
"""Every rule of the controllers, and whether its test notices when the rule is gone.

Each controller declares its rules in `tests/unit/core/controllers/<name>/rules.toml`.
"""

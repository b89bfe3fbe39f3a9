# SPDX-License-Identifier: Apache-2.0
"""From claims to actions, and what becomes of them: one stage a module, in the order of `step`."""

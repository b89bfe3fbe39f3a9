# SPDX-License-Identifier: Apache-2.0
"""What a host must have, one module per part of it; `vp-agent check` lists all that is unmet."""

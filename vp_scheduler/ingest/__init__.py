# SPDX-License-Identifier: Apache-2.0
"""What vp-scheduler does with hosts' messages: store, purge, learn profiles, sync traits."""

# SPDX-License-Identifier: Apache-2.0
"""Escalations of hosts: from the request in the ledger to a finished live migration."""

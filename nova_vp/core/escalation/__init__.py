# SPDX-License-Identifier: Apache-2.0
"""What nothing on this host resolves: the request to the cluster, and who could leave."""

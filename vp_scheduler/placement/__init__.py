# SPDX-License-Identifier: Apache-2.0
"""Inside nova-scheduler: the digests received, a request's profile, and the score of each host."""

# SPDX-License-Identifier: Apache-2.0
"""What leaves the host: digest, report, escalations, metrics; when, and over what."""

# SPDX-License-Identifier: Apache-2.0
"""What command lines share: labels, live views, exit statuses. No command stands here."""

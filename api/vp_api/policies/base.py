# SPDX-License-Identifier: Apache-2.0
"""Check strings by persona. Keystone's implied roles make a member and a manager a reader too."""

SCOPES = ["project"]

ADMIN = "role:admin"
ADMIN_OR_SERVICE = "role:admin or role:service"
PROJECT_READER = "role:reader and project_id:%(project_id)s"
PROJECT_READER_OR_OPERATOR = f"({PROJECT_READER}) or {ADMIN_OR_SERVICE}"

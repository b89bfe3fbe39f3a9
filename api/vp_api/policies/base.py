# SPDX-License-Identifier: Apache-2.0
"""Check strings by persona. Keystone's implied roles make a member and a manager a reader too."""

SCOPES = ["project"]

_OWN = "project_id:%(project_id)s"
ADMIN = "role:admin"
ADMIN_OR_SERVICE = "role:admin or role:service"
PROJECT_READER_OR_OPERATOR = f"(role:reader and {_OWN}) or {ADMIN_OR_SERVICE}"
PROJECT_MEMBER = f"role:member and {_OWN}"
PROJECT_MEMBER_OR_ADMIN = f"({PROJECT_MEMBER}) or {ADMIN}"

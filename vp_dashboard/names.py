# SPDX-License-Identifier: Apache-2.0
"""Names that are typed into filters, as the ids that vp-api takes."""

from collections.abc import Mapping

from django.utils.translation import gettext as _

from vp_client.client import Client
from vp_client.errors import AmbiguousName, NoSuchFlavor, NoSuchName, NoSuchProject, VpError


class NoSuchServer(VpError):
    def __init__(self, name: str) -> None:
        said = _(
            "No server is named '%s'. A server is found by the name that it has in Nova, or had at "
            "boot, and by its ID."
        )
        super().__init__(said % name)


class AmbiguousProject(VpError):
    def __init__(self, name: str, project_ids: list[str]) -> None:
        said = _("%(count)s projects are named '%(name)s'. Give the ID of one of them: %(ids)s")
        told = {"count": len(project_ids), "name": name, "ids": ", ".join(project_ids)}
        super().__init__(said % told)


UNKNOWN = (NoSuchServer, AmbiguousName, NoSuchProject, AmbiguousProject, NoSuchFlavor)
"""The page stays, for another name."""


def ids_of(client: Client, chosen: Mapping[str, str]) -> dict[str, str]:
    """`chosen`, with ids of the server and the project. Raises one of UNKNOWN."""
    found = dict(chosen)
    if "server_id" in found:
        found["server_id"] = _server_id(client, found["server_id"])
    if "project_id" in found:
        found["project_id"] = client.project_id(found["project_id"].strip())
    return found


def _server_id(client: Client, typed: str) -> str:
    try:
        return client.server_id(typed.strip())
    except NoSuchName as exc:
        raise NoSuchServer(typed) from exc

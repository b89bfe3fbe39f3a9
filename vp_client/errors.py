# SPDX-License-Identifier: Apache-2.0
"""What the client raises; every message says what to do next."""


class VpError(Exception):
    """Base of what `vp_client` raises."""


class ServiceNotRegistered(VpError):
    def __init__(self, region: str | None) -> None:
        super().__init__(
            "The catalog of this cloud has no service of type performance-isolation"
            f"{f' in region {region}' if region else ''}. An operator can register vp-api with:\n"
            "  openstack service create --name nova-vp performance-isolation\n"
            f"  openstack endpoint create --region {region or 'REGION'} performance-isolation "
            "public URL"
        )


class NoSuchCommand(VpError):
    def __init__(self, command: str) -> None:
        super().__init__(
            f"There is no command `openstack {command}`. `openstack vp` lists the commands."
        )


class LoginFailed(VpError):
    def __init__(self, cause: str) -> None:
        super().__init__(
            f"There is no token for vp-api: {cause} Check the credentials (`OS_CLOUD`, or "
            "`OS_AUTH_URL` and so on), the access rules of an application credential, and that "
            "keystone answers."
        )


class Unreachable(VpError):
    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            f"vp-api does not answer at {url}. Check that vp-api runs there, or correct its "
            f"endpoint in the catalog (`openstack endpoint list --service nova-vp`). {cause}"
        )


class Refused(VpError):
    """The API answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class NoSuchName(VpError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"No server is named '{name}'. `openstack vp list` lists the known servers with the "
            "names that they had at boot. Newer names are found in the project of your token only; "
            "for other projects, give the server id."
        )


class NoSuchProject(VpError):
    def __init__(self, project: str) -> None:
        super().__init__(
            f"Keystone returned no project '{project}'. List the projects with `openstack project "
            "list`. If your roles do not allow that, give the project id."
        )


class NoSuchFlavor(VpError):
    def __init__(self, flavor: str) -> None:
        super().__init__(
            f"Nova returned no flavor '{flavor}'. List the flavors with `openstack flavor list "
            "--all`."
        )


class AmbiguousName(VpError):
    def __init__(self, name: str, server_ids: list[str]) -> None:
        super().__init__(
            f"{len(server_ids)} servers are named '{name}'. Give the id of one of them: "
            f"{', '.join(server_ids)}"
        )


class NoSuchOverlay(VpError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"No overlay is named '{name}'. `openstack vp overlay list` lists those that you can "
            "see."
        )


class AmbiguousOverlay(VpError):
    def __init__(self, name: str, overlay_ids: list[str]) -> None:
        super().__init__(
            f"{len(overlay_ids)} overlays are named '{name}'. Give the id of one of them: "
            f"{', '.join(overlay_ids)}"
        )


class SeveralImages(VpError):
    def __init__(self, flavor: str, profile_ids: list[str]) -> None:
        super().__init__(
            f"Flavor '{flavor}' has {len(profile_ids)} profiles, one for each image. List them "
            f"with `openstack vp profile list --flavor {flavor}` and give the id of one of them: "
            f"{', '.join(profile_ids)}"
        )

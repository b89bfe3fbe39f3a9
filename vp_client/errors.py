# SPDX-License-Identifier: Apache-2.0
"""What the client raises; every message says what to do next."""


class VpError(Exception):
    """Base of what `vp_client` raises."""


class ServiceNotRegistered(VpError):
    def __init__(self, region: str | None) -> None:
        super().__init__(
            "The catalog of this cloud has no service of type performance-isolation"
            f"{f' in region {region}' if region else ''}. An operator registers vp-api with:\n"
            "  openstack service create --name nova-vp performance-isolation\n"
            f"  openstack endpoint create --region {region or 'REGION'} performance-isolation "
            "public URL"
        )


class Unreachable(VpError):
    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            f"vp-api does not answer at {url}: check that it is served there, or correct the "
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
            f"No server named '{name}' is known. `openstack vp list` shows those that are, by the "
            "names given at boot; a newer one is known to Nova in the project of your token."
        )


class NoSuchProject(VpError):
    def __init__(self, project: str) -> None:
        super().__init__(
            f"Keystone shows you no project '{project}'. `openstack project list` shows those that "
            "there are; who may not ask for that gives the id."
        )


class AmbiguousName(VpError):
    def __init__(self, name: str, server_ids: list[str]) -> None:
        super().__init__(
            f"{len(server_ids)} servers are named '{name}'. Use the id of one: "
            f"{', '.join(server_ids)}"
        )


class SeveralImages(VpError):
    def __init__(self, flavor: str, profile_ids: list[str]) -> None:
        super().__init__(
            f"Servers of flavor '{flavor}' were booted from {len(profile_ids)} images; `openstack "
            f"vp profile list --flavor {flavor}` tells them apart. Use the id of one: "
            f"{', '.join(profile_ids)}"
        )

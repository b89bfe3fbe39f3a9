# SPDX-License-Identifier: Apache-2.0
"""What all pages share: they read vp-api once, and show a message where it cannot be read."""

from typing import Any

from horizon import views

from vp_client.client import Client
from vp_client.errors import VpError
from vp_dashboard import api, names

ROWS = 100
"""Of a page."""


class VpView(views.HorizonTemplateView):
    def read(self, client: Client) -> dict[str, Any]:
        """The context of the page. Raises VpError."""
        raise NotImplementedError

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context_data(**kwargs)
        try:
            return context | self.read(api.client_of(self.request))
        except VpError as exc:
            return context | {"problem": api.problem(exc)}

    def chosen(self, *names: str) -> dict[str, str]:
        """Filters that the address of the page has."""
        return {name: value for name in names if (value := self.request.GET.get(name))}

    def next_page(self, marker: str | None) -> str | None:
        """The query of its address."""
        if marker is None:
            return None
        query = self.request.GET.copy()
        query["marker"] = marker
        return str(query.urlencode())

    def listed(
        self, client: Client, resource: str, chosen: dict[str, str], **more: Any
    ) -> dict[str, Any]:
        """One page of a list as vp-api has it; `chosen` may have names where it takes ids. One
        request, and those that find the names."""
        try:
            asked = names.ids_of(client, chosen)
        except names.UNKNOWN as exc:
            return {"rows": [], "unknown": str(exc)}
        rows, marker = client.page(resource, ROWS, **asked, **more)
        return {"rows": rows, "next_page": self.next_page(marker)}


class VpList(VpView):
    """One list of vp-api."""

    resource = ""
    filters: tuple[str, ...] = ()

    def read(self, client: Client) -> dict[str, Any]:
        chosen = self.chosen(*self.filters, "marker")
        return {"chosen": chosen, **self.listed(client, self.resource, chosen)}

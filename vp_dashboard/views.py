# SPDX-License-Identifier: Apache-2.0
"""What all pages share: they read vp-api once, and show a message where it cannot be read."""

from typing import Any

from horizon import views

from vp_client.client import Client
from vp_client.errors import VpError
from vp_dashboard import api

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


class VpList(VpView):
    """One page of a list as vp-api has it. One request."""

    resource = ""
    filters: tuple[str, ...] = ()

    def read(self, client: Client) -> dict[str, Any]:
        chosen = self.chosen(*self.filters, "marker")
        rows, marker = client.page(self.resource, ROWS, **chosen)
        return {"rows": rows, "chosen": chosen, "next_page": self.next_page(marker)}

# SPDX-License-Identifier: Apache-2.0
"""`make dashboard-demo`: the story of `make demo` with Horizon beside it.

Pictures are taken while the victim is degraded, and once it is not. No measurement runs meanwhile.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from testbed.dashboard import browser
from testbed.lab import demo, settings

FOLDER = settings.ROOT / "dashboard-demo"
HOST_PATH = f"/admin/vp_hosts/{demo.HOST}/"


def paths(victim_id: str) -> dict[str, str]:
    return {
        "hosts": "/admin/vp_hosts/",
        "host": HOST_PATH,
        "host-timeline": f"{HOST_PATH}timeline/",
        "servers": "/admin/vp_servers/",
        "victim": f"/admin/vp_servers/{victim_id}/",
        "what-if": f"/admin/vp_what_if/?server_id={victim_id}",
        "actions": "/admin/vp_actions/",
    }


class Camera:
    """A browser that logs in for its first picture, when Horizon is up."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._context: browser.BrowserContext | None = None

    def show(self, moment: str, victim_id: str) -> None:
        if self._context is None:
            chromium = self._stack.enter_context(browser.running())
            login = browser.log_in(chromium, settings.HORIZON_URL, "admin", settings.PASSWORD)
            self._context = self._stack.enter_context(login)
        page = self._context.new_page()
        for name, path in paths(victim_id).items():
            page.goto(path)
            browser.take_picture(page, self._folder / f"{moment}-{name}.png")
        page.close()


@contextmanager
def camera(folder: Path) -> Iterator[Camera]:
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    with ExitStack() as stack:
        yield Camera(folder, stack)


def run(mode: str) -> int:
    with camera(FOLDER) as taken:
        status = demo.run(mode, ("up", "--horizon"), taken.show)
    demo.screen.print(
        f"pictures of the panels in {FOLDER.name}/; Horizon is at {settings.HORIZON_URL}/: "
        f"log in as admin, password {settings.PASSWORD}"
    )
    return status


if __name__ == "__main__":
    sys.exit(demo.main(run))

"""The inspector's view on a page, and the sidebar around it; what a user does with them is a method."""

from __future__ import annotations

import re

from playwright.sync_api import Locator

from .lab import Lab

LOAD_BUTTON = re.compile("Run %load_ext")


class View:
    """The inspector's view, wherever it is on the page."""

    def __init__(self, root: Locator) -> None:
        self.root = root

    def panel(self, name: str) -> None:
        self.root.get_by_role("tab", name=re.compile(name)).click()

    def row(self, text: str | re.Pattern[str]) -> Locator:
        return self.root.get_by_role("row").filter(has_text=text).first

    def choose(self, setting: str, value: str) -> None:
        self.choice(setting, value).click()

    def choice(self, setting: str, value: str) -> Locator:
        return self.root.get_by_role("group", name=setting).first.get_by_role("radio", name=value)

    def see(self) -> None:
        """Scroll to it: nothing is pushed to a view that is out of sight."""
        self.root.scroll_into_view_if_needed()


class Sidebar(View):
    """The panel on the right."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab.page.locator("#xla-notebook-inspector"))
        self.heading = self.root.get_by_role("heading", level=2)
        self.connection = self.root.locator(".xla-notebook").get_by_role("status").first
        self.load_button = self.root.get_by_role("button", name=LOAD_BUTTON)

    def choose(self, setting: str, value: str) -> None:
        # Not `check`: the radio shows what the kernel has confirmed.
        self.choice(setting, value).click(force=True)

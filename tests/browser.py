"""Fixtures: a headless Chromium, and a page in it that records errors and requests."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


@dataclass
class OpenPage:
    """A page in the browser, with what went wrong in it."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    allowed: tuple[str, ...] = ("file:", "data:", "blob:")  # beginnings of addresses that the page may read

    def open(self, file: Path) -> Any:
        self.page.goto(f"file://{file}")
        self.page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length > 0")
        return self.page


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


@pytest.fixture
def browser(chromium: Any) -> Iterator[OpenPage]:
    """A page that must end without errors and without a request beyond its own file."""
    page = chromium.new_page(viewport={"width": 1400, "height": 1000})
    opened = OpenPage(page)
    page.on("pageerror", lambda error: opened.errors.append(str(error)))
    page.on("console", lambda message: opened.errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: opened.requests.append(request.url))
    yield opened
    page.close()
    assert opened.errors == []
    assert [url for url in opened.requests if not url.startswith(opened.allowed)] == []

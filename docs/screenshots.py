"""Takes the pictures of docs/images from a dashboard that runs: light, dark and on a phone.

    python docs/screenshots.py http://127.0.0.1:8501 docs/images
    python docs/screenshots.py http://127.0.0.1:8501 docs/images --only overview series

A picture is named after its page and theme: overview_light.png, series_dark.png, overview_phone.png. The finding is the
dearest one of the store; without one its page is left out and said so.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

PAGES = {
    "overview": "",
    "findings": "findings?state=all",
    "series": "series",
    "roofline": "roofline",
    "shapes": "shapes?colour=ratio+to+optimized",
    "compare": "compare?by=arm",
    "memory": "memory",
    "collectives": "collectives",
    "numerics": "numerics",
    "static": "static",
    "fleet": "fleet",
    "runs": "runs",
    "policies": "policies",
}
ON_PHONE = ("overview", "series", "runs")
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
PHONE_AGENT = "Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36"
DRAWN = (
    "() => !document.querySelector('[data-testid=stStatusWidget]') && !document.querySelector('[data-stale=true]')"
    " && !document.querySelector('[data-testid=stSkeleton]')"
)
TALLEST_PX = 1700


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("address", help="where the dashboard is, such as http://127.0.0.1:8501")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--only", nargs="*", choices=[*PAGES, "finding"], help="only these pages")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        pages = dict(PAGES)
        finding = first_finding(browser, given.address)
        if finding:
            pages["finding"] = finding
        else:
            sys.stderr.write("no finding in this store: its page is left out\n")
        for name, path in pages.items():
            if given.only and name not in given.only:
                continue
            for theme in ("light", "dark", *(("phone",) if name in ON_PHONE else ())):
                target = given.folder / f"{name}_{theme}.png"
                take(browser, f"{given.address}/{path}", theme, target)
                sys.stdout.write(f"{target}\n")
        browser.close()
    return 0


def first_finding(browser: Any, address: str) -> str | None:
    """The path of the dearest finding's page."""
    page = browser.new_page()
    opened(page, f"{address}/findings?state=all")
    links = page.locator("table.ko-table a[href*='finding=']")
    path = links.first.get_attribute("href") if links.count() else None
    page.close()
    return path


def opened(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("h1.ko-h1", timeout=120_000)
    page.wait_for_function(DRAWN, timeout=120_000)
    page.wait_for_timeout(1500)
    page.wait_for_function(DRAWN, timeout=120_000)


def take(browser: Any, url: str, theme: str, target: Path) -> None:
    """One picture, as tall as the page up to a limit."""
    phone = theme == "phone"
    width = 390 if phone else 1440
    options = {"is_mobile": True, "user_agent": PHONE_AGENT} if phone else {}
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if theme == "dark" else "light", **options
    )
    page = context.new_page()
    opened(page, url)
    height = page.evaluate("() => document.querySelector('.stMainBlockContainer').scrollHeight")
    page.set_viewport_size({"width": width, "height": min(max(int(height) + 40, 700), TALLEST_PX)})
    page.wait_for_timeout(900)
    page.screenshot(path=str(target))
    context.close()


if __name__ == "__main__":
    raise SystemExit(main())

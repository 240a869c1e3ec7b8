"""Pictures of the pages in a real browser: `python docs/screenshots.py FOLDER PAGE.html...`.

Needs Chromium with its driver (Debian: chromium, chromium-driver), selenium and pillow. Each page gives NAME-desktop.png,
NAME-phone.png and NAME-dark.png: 1280 pixels wide, 390 pixels, and 1280 in dark mode; pictures are cut at MOST_HEIGHT.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any, Tuple

MOST_HEIGHT = 1700
#: name -> (width, dark, colours of the picture). Few colours keep the files small.
SHOTS = {"desktop": (1280, False), "phone": (390, False), "dark": (1280, True)}
COLOURS = 64


def browser(width: int, dark: bool) -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},1000"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    return driver


def shoot(page: Path, out: Path, width: int, dark: bool) -> Tuple[int, bool]:
    """Writes one picture; the page's height, and whether it scrolls sideways."""
    from PIL import Image

    driver = browser(width, dark)
    try:
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get(page.resolve().as_uri())
        height = int(driver.execute_script("return document.documentElement.scrollHeight"))
        sideways = bool(driver.execute_script("return document.documentElement.scrollWidth > window.innerWidth"))
        shown = {**metrics, "height": min(height, MOST_HEIGHT)}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shown)
        picture = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    finally:
        driver.quit()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(out, optimize=True)
    return height, sideways


def main() -> int:
    folder, pages = Path(sys.argv[1]), [Path(p) for p in sys.argv[2:]]
    folder.mkdir(parents=True, exist_ok=True)
    wide = 0
    for page in pages:
        for name, (width, dark) in SHOTS.items():
            out = folder / f"{page.stem}-{name}.png"
            height, sideways = shoot(page, out, width, dark)
            wide += sideways
            fault = ", SCROLLS SIDEWAYS" if sideways else ""
            sys.stdout.write(f"{out}: {height} pixels high, {out.stat().st_size} bytes{fault}\n")
    return 1 if wide else 0


if __name__ == "__main__":
    sys.exit(main())

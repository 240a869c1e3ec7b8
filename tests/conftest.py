"""Shared fixtures: golden files and the optional facts folder beside the checkout."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence

import pytest
from hypothesis import settings

from edgedla.identity import identity
from tests.amounts import examples

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
SHARED = ROOT.parent / "shared"


# A shell without job control starts background commands with SIGINT ignored, and children inherit it: tests that press
# Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# So does `nohup` with SIGHUP, which tests send as a terminal that closes does.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what the code prints now")
    parser.addoption("--slow", action="store_true", help="run the tests marked slow too")
    parser.addoption("--long", action="store_true", help="run the tests marked long too, as EDGEDLA_TESTS=all does")
    parser.addoption(
        "--again",
        action="store_true",
        help="another Python has run the suite: leave out the tests marked once, and of a test's many cases all but a share",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--again"):
        # Before the tests are imported: tests/amounts.py reads it. Workers and programs that tests start inherit it.
        os.environ.setdefault("EDGEDLA_TESTS", "again")
    # Without a deadline: on a busy machine an example takes any time.
    settings.register_profile("edgedla", deadline=None, max_examples=examples(settings().max_examples))
    settings.load_profile("edgedla")


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    """Commands that run until Ctrl-C leave their handlers, as their process ends with them; here the next test would have them."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    yield
    for number, handler in before:
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays to the end: looking through it again and again takes a sixth of the time of collecting."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    # The longest first, so that no worker begins one when the others have nothing left.
    items.sort(key=lambda item: ("slow" not in item.keywords, "test_commands" not in item.nodeid, "once" not in item.keywords))
    left_out = {} if config.getoption("--slow") else {"slow": "slow: run it with --slow"}
    if not config.getoption("--long") and os.environ.get("EDGEDLA_TESTS") != "all":
        left_out["long"] = "long: run it with --long"
    if config.getoption("--again"):
        left_out["once"] = "once: it says nothing about another Python"
    for item in items:
        for marker, reason in left_out.items():
            if marker in item.keywords:
                item.add_marker(pytest.mark.skip(reason=reason))
    if config.getoption("--again"):
        for item in cases_left_out(items):
            item.add_marker(pytest.mark.skip(reason="one of many cases: under another Python a share of them is run"))


#: Under a second Python, a test keeps its first cases and a share of the others: they run the same lines on other data.
FIRST_CASES, SHARE_OF_CASES = 3, 4


def cases_left_out(items: Sequence[pytest.Item]) -> List[pytest.Item]:
    """Cases of parametrised tests that a second Python can do without: of those after the first, all but every fourth."""
    cases: Dict[str, List[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    return [
        item for group in cases.values() for i, item in enumerate(group[FIRST_CASES:]) if i % SHARE_OF_CASES != SHARE_OF_CASES - 1
    ]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("name.txt", text)` compares with tests/golden/name.txt, or rewrites it under --update-golden.

    Version and digests of the edgedla that is tested stand there as VERSION and DIGEST.
    """

    def compare(name: str, text: str) -> None:
        if identity().version in text:
            text = text.replace(identity().version, "VERSION")
            for digest in identity().digests.values():
                text = text.replace(digest, "DIGEST")
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"no golden file {name}; run pytest with --update-golden and read what it writes"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def shared() -> Path:
    """The folder of facts and evidence beside the checkout; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the facts folder ../shared does not stand beside this checkout")
    return SHARED

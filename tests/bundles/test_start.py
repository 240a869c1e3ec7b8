"""What the first program of a bundle does before anything else: modules that wait, and modules found by the manifest."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from edgedla.bundles import start


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder for modules `waits_*`, which are left alone when they are imported."""
    monkeypatch.setattr(start, "LATER", frozenset({"waits_a", "waits_b"}))
    monkeypatch.setattr(sys, "meta_path", [start.LaterFinder(), *sys.meta_path])
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("waits_a", "waits_b"):
        sys.modules.pop(name, None)


def test_a_module_waits_until_its_first_name_is_asked_for(waiting: Path) -> None:
    (waiting / "waits_a.py").write_text("import sys\nsys.waits_loaded = getattr(sys, 'waits_loaded', 0) + 1\nx = 5\n")
    module = importlib.import_module("waits_a")
    assert not hasattr(sys, "waits_loaded")
    answers: List[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(module.x)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [5] * 8
    assert sys.waits_loaded == 1
    del sys.waits_loaded
    with pytest.raises(AttributeError, match="no attribute 'y'"):
        module.y  # noqa: B018
    assert type(module) is type(sys)
    assert module.__file__ == str(waiting / "waits_a.py")


def test_modules_that_need_each_other_and_one_that_fails(waiting: Path) -> None:
    (waiting / "waits_a.py").write_text("import waits_b\nx = 1\ny = waits_b.z + 1\n")
    (waiting / "waits_b.py").write_text("import waits_a\nz = waits_a.x + 1\n")
    assert importlib.import_module("waits_a").y == 3
    for name in ("waits_a", "waits_b"):
        del sys.modules[name]
    (waiting / "waits_a.py").write_text("x = 1\n1 / 0\n")
    module = importlib.import_module("waits_a")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            module.later  # noqa: B018


def test_the_manifest_says_where_modules_are(tmp_path: Path) -> None:
    (tmp_path / "edgedla" / "sub").mkdir(parents=True)
    (tmp_path / "edgedla" / "sub" / "__init__.py").write_text("")
    finder = start.BundleFinder(str(tmp_path), ["edgedla/sub/__init__.py", "edgedla/one.py"])
    package, module = finder.find_spec("edgedla.sub"), finder.find_spec("edgedla.one")
    assert package.submodule_search_locations == [str(tmp_path / "edgedla" / "sub")]
    assert (module.submodule_search_locations, module.origin) == (None, str(tmp_path / "edgedla/one.py"))
    # The compiled form is kept beside it, as for any other module.
    assert str(module.cached).endswith(".pyc")
    assert [finder.find_spec(name) for name in ("edgedla.two", "numpy")] == [None, None]

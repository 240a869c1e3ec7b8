"""Puts a compiled form of each rule file into the wheel: the first command after an installation reads no YAML."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent


class CompiledRules(BuildHookInterface[Any]):
    """One form beside each rule file; of a layer's rules also one without their examples, which a check does not read."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, str(ROOT))
        try:
            from edgedla.io.data import compiled_name, form_of
            from edgedla.io.strict_yaml import packed
        finally:
            sys.path.remove(str(ROOT))
        self.folder = tempfile.TemporaryDirectory()
        for path in sorted((ROOT / "rules").rglob("*.yaml")):
            within, data = path.relative_to(ROOT / "rules"), path.read_bytes()
            for skip in [frozenset(), frozenset({"examples"})][: 2 if within.parts[0] == "layers" else 1]:
                name = within.with_name(compiled_name(path, skip))
                form = Path(self.folder.name) / name
                form.parent.mkdir(parents=True, exist_ok=True)
                form.write_text(json.dumps(form_of(data, packed(data, str(within), skip)), ensure_ascii=False), encoding="utf-8")
                build_data["force_include"][str(form)] = f"edgedla/_rules/{name.as_posix()}"

    def finalize(self, version: str, build_data: Dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self.folder.cleanup()

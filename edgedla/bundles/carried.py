"""What of a pipeline file's folder a bundle takes along: films, pictures, decoders and priors; and what the board has to bring."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any, Dict, FrozenSet, List
from urllib.parse import quote

from edgedla.bundles.closure import imports_of
from edgedla.runtime.pipeline.settings import ModelConfig, PipelineConfig
from edgedla.runtime.sources.uri import IMAGE_ENDINGS, path_in

#: Each start hashes every file that was taken along, and holds it in memory meanwhile.
MOST_BYTES = 64 << 20


class Carried:
    """Attributes:
    files: by name in the bundle. lacking: what the board must have, as the pipeline file names it.
    modules: of edgedla, that decoders import.
    """

    def __init__(self) -> None:
        self.files: Dict[str, Path] = {}
        self.lacking: List[str] = []
        self.modules: FrozenSet[str] = frozenset()
        self._names: Dict[str, str] = {}

    def add(self, path: str) -> str:
        """The name in the bundle of a file, or of a folder of images."""
        real = os.path.realpath(path)
        if real not in self._names:
            name = self._names[real] = f"files/{len(self._names)}-{os.path.basename(os.path.normpath(path))}"
            self.files.update({name + below: file for below, file in _files(path).items()})
        return self._names[real]

    def sources(self, document: Dict[str, Any], config: PipelineConfig) -> None:
        """Films and folders of images that the file names relative to itself. A full path is one of the board."""
        for name, source in config.named_sources.items():
            holder, key = (document["sources"], name) if name else (document, "source")
            given = holder.get(key)
            if not given:
                continue
            if isinstance(given, dict):
                holder, key, given = given, "uri", given["uri"]
            relative, path = path_in(given), path_in(source.uri)
            if not relative:
                continue
            if os.path.isabs(relative) or not 0 < _bytes(path) <= MOST_BYTES:
                self.lacking.append(relative)
            else:
                scheme, separator, rest = given.partition("://")
                carried, query = self.add(path), rest.partition("?")[2]
                holder[key] = f"{scheme}://{quote(carried)}" + "?" * bool(query) + query if separator else carried

    def decoder(self, decode: Dict[str, Any], model: ModelConfig) -> None:
        """Labels stand in the settings themselves; a decoder's file, and of SSD the priors, come along."""
        if model.decode.labels:
            decode["labels"] = list(model.decode.labels)
        if model.decode.priors:
            decode["priors"] = self.add(model.decode.priors)
        path, colon, function = model.decode.kind.rpartition(":")
        if colon and not path.endswith(".py"):
            self.lacking.append(f"Python's module {path}")
        elif colon and os.path.isfile(path):
            decode["kind"] = f"{self.add(path)}:{function}"
            imported = imports_of(ast.parse(Path(path).read_bytes(), path).body)
            self.modules |= {module for module, _ in imported if module.split(".")[0] == "edgedla"}

    def secrets(self, document: Dict[str, Any]) -> None:
        """Files with passwords stay where they are."""
        outputs = document.get("outputs") or {}
        named = (
            (document.get("view") or {}, ("token_file",)),
            (outputs.get("mqtt") or {}, ("password_file", "ca_file")),
        )
        self.lacking += [part[key] for part, keys in named for key in keys if part.get(key)]


def _files(path: str) -> Dict[str, Path]:
    """By what follows the path's name: of a folder the images, as the pipeline sees it; of a file that itself."""
    if not os.path.isdir(path):
        return {"": Path(path)}
    return {f"/{name}": Path(path, name) for name in sorted(os.listdir(path)) if name.lower().endswith(IMAGE_ENDINGS)}


def _bytes(path: str) -> int:
    return sum(file.stat().st_size for file in _files(path).values() if file.is_file())

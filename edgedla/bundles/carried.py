"""The files of a pipeline that a bundle includes (videos, pictures, decoders, priors), and those the board must have."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any, Dict, FrozenSet, List
from urllib.parse import quote

from edgedla.bundles.closure import imports_of
from edgedla.runtime.pipeline.settings import ModelConfig, PipelineConfig
from edgedla.runtime.sources.uri import IMAGE_ENDINGS, path_in

#: Every start hashes each included file, holding it in memory.
MOST_BYTES = 64 << 20


class Carried:
    """The files that a bundle includes.

    Attributes:
        files: name in the bundle -> file. lacking: what the board must have, as the pipeline file names it.
        modules: modules of edgedla that decoders import.
    """

    def __init__(self) -> None:
        self.files: Dict[str, Path] = {}
        self.lacking: List[str] = []
        self.modules: FrozenSet[str] = frozenset()
        self._names: Dict[str, str] = {}

    def add(self, path: str) -> str:
        """Adds a file, or a folder of images. Returns its name in the bundle."""
        real = os.path.realpath(path)
        if real not in self._names:
            name = self._names[real] = f"files/{len(self._names)}-{os.path.basename(os.path.normpath(path))}"
            self.files.update({name + below: file for below, file in _files(path).items()})
        return self._names[real]

    def sources(self, document: Dict[str, Any], config: PipelineConfig) -> None:
        """Adds videos and folders of images that the file names relative to itself. An absolute path is one on the board."""
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
            if (
                os.path.isabs(relative)
                or not 0 < sum(x.stat().st_size for x in _files(path).values() if x.is_file()) <= MOST_BYTES
            ):
                self.lacking.append(relative)
            else:
                scheme, separator, rest = given.partition("://")
                carried, query = self.add(path), rest.partition("?")[2]
                holder[key] = f"{scheme}://{quote(carried)}" + "?" * bool(query) + query if separator else carried

    def decoder(self, decode: Dict[str, Any], model: ModelConfig) -> None:
        """Adds a decoder's file, and the priors of SSD. Labels are written into the settings themselves."""
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
        """Password files are not included: the board must have them."""
        outputs = document.get("outputs") or {}
        named = ((document.get("view") or {}, ("token_file",)), (outputs.get("mqtt") or {}, ("password_file", "ca_file")))
        self.lacking += [part[key] for part, keys in named for key in keys if part.get(key)]


def _files(path: str) -> Dict[str, Path]:
    """Path suffix -> file: for a folder its images, in the pipeline's order; for a file, the file itself under ""."""
    if not os.path.isdir(path):
        return {"": Path(path)}
    return {f"/{name}": Path(path, name) for name in sorted(os.listdir(path)) if name.lower().endswith(IMAGE_ENDINGS)}

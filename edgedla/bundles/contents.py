"""What goes into a bundle: settings with everything resolved, artifacts, modules, and the hash of each file."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from edgedla.builder.artifact.artifact import Artifact
from edgedla.builder.artifact.load import load_artifact
from edgedla.bundles.carried import Carried
from edgedla.bundles.choices import ROOTS, choices_of, libraries, needed
from edgedla.bundles.closure import PACKAGE, closure
from edgedla.errors import EnvironmentMissing, UsageError
from edgedla.identity import identity
from edgedla.io.documents import artifact_folder, header
from edgedla.runtime.pipeline.config import config_from
from edgedla.runtime.pipeline.devices import placed_together, split_device
from edgedla.runtime.pipeline.open_engine import batch_of, read_model
from edgedla.runtime.pipeline.reading import read_document
from edgedla.runtime.pipeline.settings import PipelineConfig, SourceConfig
from edgedla.text.addresses import has_secret

#: The file that Python runs, and the file that it starts.
MAIN, START = "__main__.py", "edgedla/bundles/start.py"
#: Other files of edgedla that modules open.
BESIDE = {
    "edgedla.runtime.preprocess.cuda_preprocess": ("runtime/preprocess/preprocess.cu",),
    "edgedla.runtime.live.server": (
        *(f"runtime/live/templates/live.{ending}" for ending in ("css", "html.j2", "js")),
        "reports/templates/style.css",
    ),
}
#: A single expression, so that no truncated part of it is a valid program: Python itself reports a truncated file. It
#: verifies the program it starts, because a truncated program may do nothing and exit with success.
FIRST = '''\
[exec("""# The start of a bundle. If it is said to have no end, it was cut: copy or bundle it again.
import os, sys
# Results and whatever else stands beside it (a json.py) would be taken for Python's own modules.
HERE = os.path.dirname(__file__)
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != os.path.abspath(HERE)]
try:
    if sys.version_info >= (3, 12):
        from _sha2 import sha256
    else:
        from _sha256 import sha256
except ImportError:
    from hashlib import sha256
try:
    START = os.path.join(HERE, *"%s".split("/"))
    BODY = __loader__.get_data(START)
    DAMAGE = "" if sha256(BODY).hexdigest() == "%s" else "is not the file that was bundled"
except Exception as e:
    DAMAGE = "cannot be read: " + str(e)
if DAMAGE:
    try:
        DAMAGE = "bundle: error: the bundle is damaged: " + START + " " + DAMAGE + "; copy or bundle it again\\\\n"
        os.write(2, DAMAGE.encode("utf-8", "backslashreplace"))
    except OSError:
        pass
    raise SystemExit(3)
exec(compile(BODY, START, "exec"))
""")]
'''


@dataclass(frozen=True)
class Contents:
    """The files of a bundle by name. `code` is what Python imports, `data` what the program opens.

    Attributes:
        private: an address in the pipeline holds a password, so only the user may read the manifest.
        lacking: paths in the pipeline that must exist on the board.
    """

    manifest: Mapping[str, Any]
    code: Mapping[str, bytes]
    data: Mapping[str, Path]
    private: bool = False
    lacking: Tuple[str, ...] = ()

    def bundle_json(self) -> bytes:
        return (json.dumps(self.manifest, indent=1) + "\n").encode()


class _Artifacts:
    """Artifacts by source folder, each under its name in the bundle."""

    def __init__(self) -> None:
        self.names: Dict[str, str] = {}
        self.loaded: List[Artifact] = []
        self.files: Dict[str, Path] = {}

    def add(self, folder: str) -> str:
        real = os.path.realpath(artifact_folder(folder))
        if real not in self.names:
            artifact = load_artifact(real)
            name = f"artifacts/{len(self.names)}"
            self.names[real] = name
            self.loaded.append(artifact)
            self.files.update(_files(artifact, Path(real), name))
        return self.names[real]


def _files(artifact: Artifact, folder: Path, name: str) -> Dict[str, Path]:
    """The files of an artifact that a run needs: its manifest and every file that it names, for each stage."""
    paths = {f"{name}/manifest.json": folder / "manifest.json"}
    paths.update({f"{name}/{entry.path}": folder / entry.path for entry in artifact.files})
    for stage in artifact.stages:
        assert stage.artifact.folder is not None
        below = stage.artifact.folder.name
        paths.update(_files(stage.artifact, stage.artifact.folder, f"{name}/{below}"))
    return paths


def contents_of(artifact: Union[None, str, Path], pipeline: Union[None, str, Path]) -> Contents:
    """The bundle of a pipeline file, of an artifact, or of a pipeline file with another artifact.

    Raises:
        UsageError: neither is given. DocumentError: the pipeline or an artifact is wrong.
    """
    if artifact is None and pipeline is None:
        raise UsageError("nothing to bundle", allowed="ARTIFACT, --pipeline FILE, or both")
    version, document, where = 1, {"artifact": os.path.abspath(artifact or ""), "source": ""}, "."
    if pipeline is not None:
        where = str(pipeline)
        version, document = read_document(where)
        if artifact is not None:
            if version != 1:
                raise UsageError("the pipeline names an artifact for each model", where=where, allowed="--pipeline alone")
            document["artifact"] = os.path.abspath(artifact)
    document = copy.deepcopy(document)
    named = document if document.get("source") or document.get("sources") else {**document, "source": "synthetic://"}
    config = config_from(version, named, where)
    artifacts, carried = _Artifacts(), Carried()
    _resolve(document, config, artifacts, carried)
    chosen = config if named is document else _without_source(config)
    return _contents(version, document, artifacts, carried, choices_of(chosen, artifacts.loaded))


def _without_source(config: PipelineConfig) -> PipelineConfig:
    import dataclasses

    return dataclasses.replace(config, source=SourceConfig())


def _contents(version: int, document: Dict[str, Any], artifacts: _Artifacts, carried: Carried, choices: Any) -> Contents:
    modules, _ = closure(ROOTS | carried.modules, needed(choices))
    code = {path.relative_to(PACKAGE.parent).as_posix(): path.read_bytes() for path in modules.values()}
    code[START] = (PACKAGE.parent / START).read_bytes()
    # Where the bundle runs there is neither git nor metadata.
    code["edgedla/version.py"] = f"def version():\n    return {identity().version!r}\n".encode()
    code[MAIN] = (FIRST % (START, hashlib.sha256(code[START]).hexdigest())).encode()
    for name in (name for module, names in BESIDE.items() if module in modules for name in names):
        code[f"edgedla/{name}"] = (PACKAGE / name).read_bytes()
    data = {**artifacts.files, **carried.files}
    manifest = {
        **header("edgedla.bundle"),
        **identity().document,
        "python": "3.8 or newer",
        "needs": list(libraries(choices)),
        "targets": sorted({str(a.platform["target"]) for a in artifacts.loaded}),
        "simulated": any(a.simulated for a in artifacts.loaded),
        "version": version,
        "pipeline": document,
        "artifacts": sorted(artifacts.names.values()),
        "modules": sorted(m for m in modules if m != "edgedla.bundles.start"),
        "data": sorted(data),
        "files": {
            **{name: hashlib.sha256(body).hexdigest() for name, body in sorted(code.items())},
            **{name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sorted(carried.files.items())},
        },
    }
    return Contents(manifest, code, data, holds_password(document), tuple(dict.fromkeys(carried.lacking)))


def holds_password(value: Any) -> bool:
    """True if an address anywhere in a pipeline's document seems to hold a password."""
    if isinstance(value, (dict, list)):
        return any(map(holds_password, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and "://" in value and has_secret(value)


def _resolve(document: Dict[str, Any], config: PipelineConfig, artifacts: _Artifacts, carried: Carried) -> None:
    """Replaces paths in the document by names in the bundle, and a placement by its devices."""
    carried.sources(document, config)
    carried.secrets(document)
    placed: Optional[List[Tuple[str, ...]]] = None
    models = config.named_models
    if config.placement:
        loaded = [load_artifact(m.artifact) for m in models.values()]
        placed = list(placed_together(config.placement, loaded, bool(config.models)))
        del document["placement"]
    for place, (name, model) in enumerate(models.items()):
        # The machine where it runs may have libraries, and modules with own decoders, that this one lacks.
        if ":" in model.decode.kind:
            batch_of(load_artifact(artifact_folder(model.artifact)))
        else:
            with contextlib.suppress(EnvironmentMissing):
                read_model(name, model)
        part: Dict[str, Any] = document["models"][name] if name else document
        part["artifact"] = artifacts.add(model.artifact)
        devices = placed[place] if placed is not None else model.devices
        if devices:
            part["devices"] = [_device(text, artifacts) for text in devices]
        if part.get("decode"):
            decode = part["decode"] = part["decode"] if isinstance(part["decode"], dict) else {"kind": part["decode"]}
            carried.decoder(decode, model)


def _device(text: str, artifacts: _Artifacts) -> str:
    name, path = split_device(text)
    return f"{name}={artifacts.add(path)}" if path else name

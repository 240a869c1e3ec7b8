"""The program on the board: runs the bundle's pipeline from its settings and the options given at the start."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional

from edgedla.errors import EdgedlaError, EnvironmentMissing
from edgedla.processes.malloc import collect_often, limit_arenas
from edgedla.runtime.health.service import as_service
from edgedla.runtime.pipeline.config import check_names, config_from, with_overrides
from edgedla.runtime.pipeline.open_pipeline import end_on_signals, opened_parts, watched
from edgedla.runtime.pipeline.settings import PipelineConfig
from edgedla.text.printable import printable_text, without_credentials

SETTINGS = "bundle.json"


def main(root: str, arguments: Optional[List[str]] = None, opened: Callable[[], None] = lambda: None) -> int:
    """Runs the bundle in the folder `root`; exit codes as for `edgedla run`.

    Args:
        opened: called when the pipeline is open, before it runs: after that the process may be killed at any time.
    """
    try:
        code = _main(root, _given(sys.argv[1:] if arguments is None else arguments), opened)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _end_stdout()
        return 128 + signal.SIGPIPE
    except EdgedlaError as e:
        return _say(f"error: {e}", e.exit_code)
    except ImportError as e:
        return _say(f"error: {_missing(e)}", EnvironmentMissing.exit_code)
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except OSError as e:
        _end_stdout()
        where = f"{e.filename}: " if e.filename else ""
        return _say(f"error: {where}{e.strerror or e}", EnvironmentMissing.exit_code)
    except MemoryError:
        return _say("error: out of memory", EnvironmentMissing.exit_code)
    except Exception as e:
        if os.environ.get("EDGEDLA_DEBUG", "") not in ("", "0"):
            raise
        return _say(f"bug in edgedla: {type(e).__name__}: {e}\n  EDGEDLA_DEBUG=1 prints the traceback", EdgedlaError.exit_code)


def _end_stdout() -> None:
    """Closes stdout: otherwise Python flushes it at exit, and complains if the pipe is closed or the disk full."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(text: str) -> None:
    if sys.stdout is not None:
        sys.stdout.write(text + "\n")


def _given(arguments: List[str]) -> Any:
    """The options given at the start; without any, argparse and its imports are skipped."""
    if not arguments:
        return SimpleNamespace(source=[], frames=None, seconds=None, jsonl=None, verify=False)
    import argparse

    parser = argparse.ArgumentParser(prog="bundle", description="Runs the pipeline of this bundle.")
    parser.add_argument("--source", action="append", default=[], help="in place of the bundle's: URI, or NAME=URI")
    parser.add_argument("--frames", type=int, help="stop after so many results")
    parser.add_argument("--seconds", type=float, help="stop after so many seconds")
    parser.add_argument("--jsonl", help="write results as JSON lines")
    parser.add_argument("--verify", action="store_true", help="only verify every file, load every module, and say so")
    return parser.parse_args(arguments)


def _main(root: str, given: Any, opened: Callable[[], None]) -> int:
    with open(os.path.join(root, SETTINGS), encoding="utf-8") as f:
        settings = json.load(f)
    if given.verify:
        return _verify(root, settings)
    config = with_overrides(
        _config(root, settings),
        sources=given.source,
        outputs={"jsonl": given.jsonl},
        stop_after={"frames": given.frames, "seconds": given.seconds},
    )
    return _run(config, opened)


def _missing(error: ImportError) -> EnvironmentMissing:
    missing = str(error.name or "")
    if missing.startswith("edgedla."):
        return EnvironmentMissing(
            f"this bundle was made without {missing}", hint="bundle the pipeline again with the source or output that needs it"
        )
    return EnvironmentMissing(
        f"the Python library {missing!r} cannot be imported",
        hint=f"JetPack or pip brings it; `needs` in {SETTINGS} lists what this bundle needs",
    )


def _config(root: str, settings: Dict[str, Any]) -> PipelineConfig:
    document = dict(settings["pipeline"])
    if not (document.get("source") or document.get("sources")):
        # The source is named at the start.
        config = config_from(settings["version"], {**document, "source": "synthetic://"}, os.path.join(root, SETTINGS))
        return dataclasses.replace(config, source=type(config.source)())
    return config_from(settings["version"], document, os.path.join(root, SETTINGS))


def _run(config: PipelineConfig, ready: Callable[[], None]) -> int:
    limit_arenas()
    check_names(config)
    with opened_parts(config) as parts:
        opened = parts.pipeline
        end_on_signals(opened, "SIGINT", "SIGTERM", "SIGHUP")
        collect_often()
        ready()
        with watched(opened, config, "bundle"), as_service(opened):
            summary = opened.run()
    _print(json.dumps(summary, indent=1))
    return 0


def _verify(root: str, settings: Dict[str, Any]) -> int:
    """Loads every module and verifies every artifact. Each start checks the hashes of the bundle's own files anyway."""
    import importlib

    from edgedla.builder.artifact.load import load_artifact

    for name in settings["modules"]:
        try:
            importlib.import_module(name)
        except ImportError as e:
            if str(e.name).split(".")[0] in ("edgedla", "numpy"):
                raise
    for name in settings["artifacts"]:
        load_artifact(os.path.join(root, name))
    modules, artifacts = len(settings["modules"]), len(settings["artifacts"])
    _print(f"whole: {modules} modules, {artifacts} artifact{'s' * (artifacts != 1)}")
    return 0


def _say(text: str, code: int) -> int:
    # If stdout cannot be written (closed, disk full), the exit code still tells.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(printable_text(without_credentials(f"bundle: {text}\n")))
    return code

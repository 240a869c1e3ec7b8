"""The finished rows of a sweep on disk, so that a killed sweep can continue."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import BinaryIO, Dict, Iterable, List, Optional

from edgedla.errors import EnvironmentMissing
from edgedla.io.files import make_missing, open_plain, remove_empty, without_links, writing
from edgedla.io.sealed import sealed, unsealed
from edgedla.sweep.row import FAILED, Row, is_row


class Journal:
    """Rows by key in a file of JSON lines, each with its hash; a line that was cut off by a kill or edited is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Optional[BinaryIO] = None
        self._made: List[str] = []

    def rows(self, retry_failed: bool = False) -> Dict[str, Row]:
        """The finished rows; with `retry_failed`, without those that ended by a limit, a crash or an error."""
        by_key: Dict[str, Row] = {}
        try:
            with open_plain(self.path) as f:
                text = f.read()
        except FileNotFoundError:
            return by_key
        except NotADirectoryError:
            # Unreadable: writing to it will report what is wrong.
            return by_key
        except OSError as e:
            raise EnvironmentMissing(f"cannot be read: {e.strerror}", where=str(self.path)) from e
        for line in text.split(b"\n"):
            row = unsealed(line)
            if row is not None and is_row(row):
                by_key[row["key"]] = row
        return {k: r for k, r in by_key.items() if not (retry_failed and r["status"] in FAILED)}

    def add(self, rows: Iterable[Row]) -> None:
        """Appends rows and flushes them, so that they survive a kill of this process."""
        with writing(self.path):
            if self._file is None:
                self._made = make_missing(str(self.path.absolute().parent))
                self._file = open(self.path, "ab", opener=without_links)  # noqa: SIM115 - closed by close()
                if self._file.tell() and not self.path.read_bytes().endswith(b"\n"):
                    self._file.write(b"\n")
            for row in rows:
                self._file.write(json.dumps(sealed(row), separators=(",", ":")).encode("utf-8") + b"\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            # A full disk refuses here once more what was not written.
            with writing(self.path), file:
                os.fsync(file.fileno())
        finally:
            if not self.path.stat().st_size:
                self.path.unlink()
                remove_empty(self._made)

    def remove(self) -> None:
        if self.path.exists() or self.path.is_symlink():
            self.path.unlink()

"""Where in the user's code a layer comes from: module path, file and line, as the exporter recorded them."""

from __future__ import annotations

import ntpath
from typing import Any, Dict, NamedTuple


class SourceLocation(NamedTuple):
    """A place in the code that a model was exported from.

    Attributes:
        module: path of the module in the model, for example "features.0.2"; "" where unknown.
        file: path of the Python file on the exporting machine; "" if unknown.
        line: line in it, from 1; 0 where unknown.
        function: the function that contains the line; "" if unknown.
    """

    module: str = ""
    file: str = ""
    line: int = 0
    function: str = ""

    @property
    def file_name(self) -> str:
        """The file's name without its folder; paths of Windows count too."""
        return ntpath.basename(self.file)

    def __str__(self) -> str:
        """features.0.2 (mobilenetv3.py:221)"""
        place = f"{self.file_name}:{self.line}" if self.file else ""
        if self.module and place:
            return f"{self.module} ({place})"
        return self.module or place

    def to_dict(self) -> Dict[str, Any]:
        return {"module": self.module, "file": self.file, "line": self.line, "function": self.function}

"""The frame of every framework's program. It is beside them because their interpreter may lack edgedla."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any, Callable, Dict, List, Tuple

#: (framework, exporter and names; inputs by name; outputs in order); without outputs nothing can be compared. The names:
#: "inputs", the exporter's name -> the model's own; and "outputs", in order.
Conversion = Tuple[Dict[str, Any], Dict[str, Any], List[Any]]


_PR_SET_PDEATHSIG = 1


def answer(convert: Callable[[Dict[str, Any]], Conversion]) -> None:
    """Converts the model in the command line's request file, writes reference and answer, and ends the process."""
    with open(sys.argv[1], encoding="utf-8") as request_file:
        request = json.load(request_file)
    _die_with_parent()
    about, inputs, outputs = convert(request)
    unknown = sorted(set(request["shapes"]) - set(inputs) - ({""} if len(inputs) == 1 else set()))
    if unknown:
        raise ValueError(f"--shapes names {unknown[0] or 'no input'}; its inputs: {', '.join(inputs)}")
    if outputs:
        import numpy as np

        arrays = {f"in:{name}": value for name, value in inputs.items()}
        arrays.update({f"out:{i}": value for i, value in enumerate(outputs)})
        np.savez(request["reference"], **arrays)
    with open(request["answer"], "w", encoding="utf-8") as answer_file:
        json.dump(about, answer_file)
    # Threads left by a framework would take seconds to end.
    os._exit(0)


def _die_with_parent() -> None:
    """SIGKILL to this process when the one that started it ends: nobody would read the answer, or end an endless conversion."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

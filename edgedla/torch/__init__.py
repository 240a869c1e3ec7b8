"""PyTorch modules for the DLA: checked before training, adapted to it, trained with its rounding.

Needs PyTorch (`pip install 'edgedla[torch]'`, Python 3.10 or newer) on the host only; nothing of it runs on a board.
The public names are imported on first use, so that `import edgedla.torch` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any, Dict, List

#: Public name -> its module.
_PUBLIC: Dict[str, str] = {
    "Adapted": "edgedla.torch.adaptation.adapting",
    "DlaCheck": "edgedla.torch.callbacks",
    "Fp16Ranges": "edgedla.torch.fp16_ranges",
    "NonFinite": "edgedla.torch.non_finite",
    "NotOnDla": "edgedla.torch.checking",
    "adapt": "edgedla.torch.adaptation.adapting",
    "assert_dla": "edgedla.torch.checking",
    "check": "edgedla.torch.checking",
    "AsBuilt": "edgedla.torch.qat.as_built",
    "QatModule": "edgedla.torch.qat.module",
    "calibrate": "edgedla.torch.qat.prepare",
    "export_qat": "edgedla.torch.qat.prepare",
    "prepare_qat": "edgedla.torch.qat.prepare",
    "to_onnx": "edgedla.torch.exporting",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'edgedla.torch' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *_PUBLIC})

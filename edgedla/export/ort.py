"""ONNX Runtime: options of its TensorRT execution provider, and a Python file that runs the model with them.

Options: "TensorRT Execution Provider" of ONNX Runtime's manual.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

from edgedla.export.handover import NO_CACHE, NO_ONNX, Export, Files, Handover, carry, open_sizes

READ_BY = "ONNX Runtime with the TensorRT execution provider, built for the board's TensorRT"

#: The folder of the provider's engine cache.
_CACHES = "engine_cache"
_RUN = Path(__file__).resolve().parent / "templates" / "ort_run.py.txt"


def export(handover: Handover, number: int = 1) -> Export:
    """provider_options.json and run.py."""
    options: Dict[str, Any] = {"device_id": 0, "trt_fp16_enable": 1}
    files: Files = {}
    missing: Dict[str, str] = {}
    gaps = ["the placement by layer: the provider knows DLA with GPU fallback, no layer's device"]
    if handover.core is not None:
        options.update(trt_dla_enable=1, trt_dla_core=handover.core)
    if handover.core == 1:
        # The provider sets the core on the builder but not on the runtime, which loads every engine onto core 0: a cached one
        # always, one just built since the provider serializes that too (microsoft/onnxruntime issue 26680, pull request 28364).
        options["trt_engine_cache_enable"] = 0
        gaps.append(
            "DLA core 1, in current releases of ONNX Runtime: they run every engine on core 0, as seen with 1.24.2, unless "
            "built with pull request 28364; older ones reach core 1 with an engine just built, so no engine is cached"
        )
    else:
        options.update(trt_engine_cache_enable=1, trt_engine_cache_path=_CACHES)
    if handover.precision == "int8":
        options.update(
            trt_int8_enable=1,
            # The provider looks for the table there, whether or not engines are cached.
            trt_engine_cache_path=_CACHES,
            trt_int8_calibration_table_name="calibration.cache",
            # TensorRT's own format, which edgedla writes, not ONNX Runtime's.
            trt_int8_use_native_calibration_table=1,
        )
        carry(files, missing, f"{_CACHES}/calibration.cache", handover.calibration, NO_CACHE)
    carry(files, missing, handover.onnx_name, handover.onnx, NO_ONNX)
    files["provider_options.json"] = json.dumps(options, indent=1) + "\n"
    template = _RUN.read_text(encoding="utf-8")
    sizes = json.dumps({name: list(dims) for name, dims in handover.dims.items()})
    for mark, text in (("@NAME@", handover.name), ("@ONNX@", handover.onnx_name), ("@SIZES@", sizes)):
        template = template.replace(mark, text)
    files["run.py"] = template
    gaps += open_sizes(handover)
    if handover.engine is not None:
        gaps.append("the engine that edgedla built: the provider builds its own of the parts that it takes")
    gaps.append("pictures and decoding: sessions take prepared arrays")
    return Export(files, missing, READ_BY, ("python3 run.py",), tuple(gaps))

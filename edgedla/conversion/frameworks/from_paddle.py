"""Paddle to ONNX by paddle2onnx. Run as `python from_paddle.py REQUEST.json`. The result is not compared with the source."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Tuple


def main(request: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any], List[Any]]:
    import paddle2onnx

    weights = os.path.splitext(request["source"])[0] + ".pdiparams"
    if not os.path.isfile(weights):
        raise ValueError(f"{os.path.basename(weights)} does not stand beside the model")
    paddle2onnx.export(request["source"], weights, request["model"], opset_version=request["opset"])
    return {"framework": "paddle", "exporter": f"paddle2onnx {getattr(paddle2onnx, '__version__', '')}".strip()}, {}, []


if __name__ == "__main__":
    # Beside this file, not below edgedla, which this interpreter may lack.
    from answering import answer

    answer(main)

"""Paddle to ONNX by paddle2onnx. Run as `python from_paddle.py REQUEST.json`. The result is not compared with the source."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict


def main(request: Dict[str, Any]) -> Dict[str, Any]:
    import paddle2onnx

    weights = os.path.splitext(request["source"])[0] + ".pdiparams"
    if not os.path.isfile(weights):
        raise ValueError(f"{os.path.basename(weights)} does not stand beside the model")
    paddle2onnx.export(request["source"], weights, request["model"], opset_version=request["opset"])
    return {"framework": "paddle", "exporter": f"paddle2onnx {getattr(paddle2onnx, '__version__', '')}".strip()}


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as request_file:
        asked = json.load(request_file)
    found = main(asked)
    with open(asked["answer"], "w", encoding="utf-8") as answer_file:
        json.dump(found, answer_file)

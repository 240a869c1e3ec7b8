"""Writes what torchao's pt2e flow and NVIDIA ModelOpt export after a few steps of QAT: the files of tests/data/qat.

    python benchmarks/train/third_party_qat.py tests/data/qat         needs torch, onnxscript, torchao, nvidia-modelopt

Each NAME.onnx comes with NAME.npz: inputs, and the outputs of the trained module in PyTorch. Conversions are theirs, with
the settings that their guides give for TensorRT: symmetric INT8, weights by output channel.
"""

from __future__ import annotations

import argparse
import copy
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import onnx
import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    """Conv-BN-ReLU, a residual block, pooling, classifier: 3 x 8 x 8 in, 4 scores out."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.conv1, self.bn1 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(4)
        self.head = nn.Conv2d(8, 4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.head(self.pool(self.relu(x + y)))


def steps(module: Any, x: torch.Tensor, y: torch.Tensor, count: int = 20) -> None:
    optimizer = torch.optim.SGD(module.parameters(), 1e-2)
    for _ in range(count):
        loss = F.cross_entropy(module(x).flatten(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def torchao(module: nn.Module, x: torch.Tensor, y: torch.Tensor, file: Path) -> torch.Tensor:
    from torchao.quantization import pt2e
    from torchao.quantization.pt2e import quantizer as spec
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

    def made(observer: Any, scheme: Any, low: int, **more: Any) -> Any:
        return spec.QuantizationSpec(
            dtype=torch.int8,
            quant_min=low,
            quant_max=127,
            qscheme=scheme,
            is_dynamic=False,
            observer_or_fake_quant_ctr=pt2e.FakeQuantize.with_args(observer=observer),
            **more,
        )

    value = made(pt2e.MovingAverageMinMaxObserver, torch.per_tensor_symmetric, -128)
    weight = made(pt2e.MovingAveragePerChannelMinMaxObserver, torch.per_channel_symmetric, -127, ch_axis=0)

    class ForTheDla(spec.Quantizer):
        def annotate(self, model: Any) -> Any:
            for node in model.graph.nodes:
                name, args = str(node.target), node.args
                if name.startswith("aten.conv2d"):
                    inputs = {args[0]: value, args[1]: weight}
                    node.meta["quantization_annotation"] = spec.QuantizationAnnotation(inputs, None, _annotated=True)
                elif name.startswith("aten.add.Tensor") and all(isinstance(a, torch.fx.Node) for a in args[:2]):
                    alike = spec.SharedQuantizationSpec((args[0], node))
                    inputs = {args[0]: value, args[1]: alike}
                    node.meta["quantization_annotation"] = spec.QuantizationAnnotation(inputs, None, _annotated=True)
                elif name.startswith("aten.max_pool2d"):
                    alike = spec.SharedQuantizationSpec((args[0], node))
                    node.meta["quantization_annotation"] = spec.QuantizationAnnotation({args[0]: value}, alike, _annotated=True)
            return model

        def validate(self, model: Any) -> None:
            pass

    prepared = prepare_qat_pt2e(torch.export.export(module, (x,)).module(), ForTheDla())
    steps(prepared, x, y)
    pt2e.move_exported_model_to_eval(prepared)
    converted = convert_pt2e(prepared)
    torch.onnx.export(converted, (x,), dynamo=True, input_names=["x"], output_names=["y"]).save(str(file))
    result: torch.Tensor = converted(x)
    return result


def modelopt(module: nn.Module, x: torch.Tensor, y: torch.Tensor, file: Path) -> torch.Tensor:
    import modelopt.torch.quantization as mtq

    prepared = mtq.quantize(module, mtq.INT8_DEFAULT_CFG, lambda m: m(x))
    prepared.train()
    steps(prepared, x, y)
    prepared.eval()
    torch.onnx.export(prepared, (x,), str(file), dynamo=False, opset_version=17, input_names=["x"], output_names=["y"])
    result: torch.Tensor = prepared(x)
    return result


LIBRARIES: Dict[str, Callable[..., torch.Tensor]] = {"torchao": torchao, "modelopt": modelopt}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    base, x, y = Residual(), torch.randn(4, 3, 8, 8), torch.arange(4)
    steps(base.train(), x, y)
    for name, convert in LIBRARIES.items():
        file = given.folder / f"{name}.onnx"
        result = convert(copy.deepcopy(base), x, y, file)
        model = onnx.load(str(file))
        for entry in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
            # Paths of the machine that wrote the file.
            entry.ClearField("doc_string")
            entry.ClearField("metadata_props")
        onnx.save(model, str(file))
        np.savez(given.folder / f"{name}.npz", x=x.numpy(), y=result.detach().numpy())
        print(f"{file}: {file.stat().st_size} bytes, {len(model.graph.node)} nodes")


if __name__ == "__main__":
    main()

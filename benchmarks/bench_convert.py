"""`edgedla convert` against each framework's own outputs, and its ONNX against that of the framework's own exporter.

    python benchmarks/bench_convert.py --torch PYTHON [--tensorflow PYTHON] [--paddle PYTHON] [--out FILE]

Each PYTHON is an interpreter with that framework (torchvision too; tensorflow with tf2onnx; paddle with paddle2onnx). It makes the
models with seeded random weights. `rel_l2`: worst output of the converted model in ONNX Runtime against the framework, on seeded
input. `verdicts`: layers whose verdict differs from that of the exporter's own ONNX file (`null`: there is no other exporter).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

import edgedla
from edgedla.errors import EdgedlaError
from edgedla.io.files import write_atomic

TARGETS = ("agx-orin-64gb", "agx-xavier-32gb")
#: A pickled module is found again by its module's name, as a user's own is.
TORCH_NETS = """
import torch, torchvision

class Lstm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = torch.nn.LSTM(16, 32, batch_first=True), torch.nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])

class Segmentation(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)

    def forward(self, x):
        return self.net(x)["out"]
"""
TORCH = """
import os, shutil, sys, warnings
import torch, torchvision
sys.path.insert(0, os.environ["PYTHONPATH"])
from torch_nets import Lstm, Segmentation
warnings.simplefilter("ignore")
out = sys.argv[1]
torch.manual_seed(0)
nets = {
    "resnet18": (torchvision.models.resnet18(), (1, 3, 224, 224)),
    "mobilenet_v3_small": (torchvision.models.mobilenet_v3_small(), (1, 3, 224, 224)),
    "deeplabv3": (Segmentation(), (1, 3, 224, 224)),
    "lstm": (Lstm(), (1, 12, 16)),
}
for name, (net, shape) in nets.items():
    net, x = net.eval(), torch.zeros(shape)
    torch.export.save(torch.export.export(net, (x,)), f"{out}/{name}.pt2")
    torch.jit.trace(net, x).save(f"{out}/{name}.ts")
    torch.save(net, f"{out}/{name}.pt")
    torch.onnx.export(net, (x,), f"{out}/{name}.onnx", dynamo=False, opset_version=17, input_names=["input"])
    for form in ("pt2", "ts", "pt"):
        shutil.copy(f"{out}/{name}.onnx", f"{out}/own/{name}.{form}.onnx")
    os.remove(f"{out}/{name}.onnx")
"""
TENSORFLOW = """
import os, subprocess, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
out = sys.argv[1]
tf.keras.utils.set_random_seed(0)
k = tf.keras.layers
net = tf.keras.Sequential([k.Input((32, 32, 3), batch_size=1), k.Conv2D(8, 3, padding="same"), k.BatchNormalization(), k.ReLU(),
    k.MaxPool2D(), k.DepthwiseConv2D(3), k.Conv2D(16, 1), k.ReLU(6.0), k.GlobalAveragePooling2D(), k.Dense(5), k.Softmax()])
net.save(f"{out}/net.keras")
net.export(f"{out}/saved", verbose=False)
with open(f"{out}/net.tflite", "wb") as f:
    f.write(tf.lite.TFLiteConverter.from_keras_model(net).convert())
# Keras's own export, and tf2onnx's command as its page has it.
net.export(f"{out}/own/net.keras.onnx", format="onnx", verbose=False, opset_version=17)
for given, made in (("--tflite", "net.tflite"), ("--saved-model", "saved")):
    subprocess.run([sys.executable, "-m", "tf2onnx.convert", given, f"{out}/{made}", "--opset", "17", "--output",
                    f"{out}/own/{made}.onnx"], check=True)
"""
PADDLE = """
import os, subprocess, sys
import paddle
paddle.seed(0)
net = paddle.vision.models.mobilenet_v2(pretrained=False)
net.eval()
out = sys.argv[1]
paddle.jit.save(net, out + "/net", input_spec=[paddle.static.InputSpec([1, 3, 224, 224], "float32", name="x")])
subprocess.run([os.path.join(os.path.dirname(sys.executable), "paddle2onnx"), "--model_dir", out, "--model_filename", "net.json",
                "--params_filename", "net.pdiparams", "--opset_version", "17", "--save_file", out + "/own/net.json.onnx"], check=True)
"""
SHAPES = {"lstm": (1, 12, 16)}


def verdicts(model: Any) -> List[List[Any]]:
    return [[(x.type, str(x.placed)) for x in edgedla.check(model, target=target).layers] for target in TARGETS]


def compared(path: Path, python: str, own: Optional[Path]) -> Dict[str, Any]:
    row: Dict[str, Any] = {"model": path.stem if path.is_file() else path.name, "form": path.suffix[1:] or "savedmodel"}
    needs_sizes = path.suffix in (".ts", ".pt")
    shapes = {"": SHAPES.get(path.stem, (1, 3, 224, 224))} if needs_sizes else None
    try:
        made = edgedla.convert(path, python=python, shapes=shapes, trust=path.suffix == ".pt")
    except EdgedlaError as e:
        return {**row, "error": str(e)}
    row.update(framework=made.framework, exporter=made.exporter, opset=made.opset, rel_l2=made.rel_l2, max_abs=made.max_abs)
    row["verdicts"] = None
    if own is not None:
        pairs = list(zip(verdicts(made.model), verdicts(own)))
        row["verdicts"] = sum(len(a) != len(b) or sum(x != y for x, y in zip(a, b)) for a, b in pairs)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("torch", "tensorflow", "paddle"):
        parser.add_argument(f"--{name}", metavar="PYTHON")
    parser.add_argument("--out", type=Path)
    a = parser.parse_args()
    rows = []
    for python, program in ((a.torch, TORCH), (a.tensorflow, TENSORFLOW), (a.paddle, PADDLE)):
        if python is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "own").mkdir()
            os.environ["PYTHONPATH"] = str(Path(folder) / "own")
            (Path(folder) / "own" / "torch_nets.py").write_text(TORCH_NETS)
            subprocess.run([python, "-c", program, folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for path in sorted(Path(folder).iterdir()):
                if path.suffix == ".pdiparams" or path.name == "own":
                    continue
                own = Path(folder) / "own" / f"{path.name}.onnx"
                rows.append(compared(path, python, own if own.is_file() else None))
                print(json.dumps(rows[-1]), flush=True)
    if a.out:
        command = "python benchmarks/bench_convert.py --torch PYTHON --tensorflow PYTHON --paddle PYTHON"
        write_atomic(a.out, json.dumps({"command": command, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

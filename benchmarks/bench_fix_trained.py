"""Top-1 of trained networks before and after `edgedla fix`, on their own test images.

    python benchmarks/bench_fix_trained.py FOLDER [--count 2000] [--for standalone] [--out FILE]

FOLDER holds ONNX models and generate.py, whose gen(count, 2, 1297, 1797) makes test images and labels (it needs
scikit-learn). `equal` counts images whose top-1 is the same before and after. Exits with 1 if any differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from provenance import write_rows

import edgedla
from edgedla.processes.python_files import import_file
from edgedla.quantization.session import open_session


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--for", dest="purpose", default="standalone")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    module = import_file(options.folder / "generate.py", "generate")
    images, labels = module.gen(options.count, 2, 1297, 1797)
    data = ((images / 255 - 0.5) / 0.25).astype(np.float32).transpose(0, 3, 1, 2)
    rows = []
    for path in sorted(options.folder.glob("*.onnx")):
        result = edgedla.fix(path, target="agx-orin-64gb", trt="10.3", precision="int8", purpose=options.purpose)
        sessions = [open_session(path.read_bytes()), open_session(result.to_proto().SerializeToString())]
        name = sessions[0].get_inputs()[0].name
        top = [np.array([int(np.argmax(s.run(None, {name: x[None]})[0])) for x in data]) for s in sessions]
        equal = int((top[0] == top[1]).sum())
        rows.append(
            {
                "model": path.stem,
                "images": len(data),
                "equal": equal,
                "sites": len(result.applied),
                "top1_before": round(float((top[0] == labels).mean()), 5),
                "top1_after": round(float((top[1] == labels).mean()), 5),
                "passes": result.after.passes,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    if options.out:
        write_rows(options.out, rows)
    return int(any(row["equal"] < row["images"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())

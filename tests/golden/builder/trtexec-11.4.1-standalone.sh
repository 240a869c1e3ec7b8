#!/usr/bin/env bash
# small for agx-orin-64gb, standalone, int8.
# Written by edgedla VERSION for trtexec of TensorRT 11.4.1 (options as of 11.1, the newest read).
# Plan made for TensorRT 10.3.0; model sha256 abababababababab.
# usage: script [MODEL.onnx [OUTPUT_FOLDER]]; TRTEXEC=... names another trtexec.
# NOT EXPRESSED: precision int8: TensorRT 11 takes it from the model's tensor types. Convert the model first: `edgedla fix MODEL --trt 11.4.1 -o OUT` makes it FP16
# NOT EXPRESSED: --layerPrecisions: not in this release, so TensorRT decides over: relu
set -euo pipefail
TRTEXEC="${TRTEXEC:-$(command -v trtexec || echo /usr/src/tensorrt/bin/trtexec)}"
MODEL=small.onnx
if [ "$#" -ge 1 ]; then MODEL="$1"; fi
OUT="${2:-.}"
mkdir -p "$OUT"
arguments=(
  --onnx="$MODEL"
  --saveEngine="$OUT/model.dla.bin"
  --useDLACore=0
  --directIO
  --reportCapabilityDLA
  --buildDLAStandalone
  --inputIOFormats=dla_hwc4
  --outputIOFormats=dla_linear
  --memPoolSize=dlaSRAM:1,dlaLocalDRAM:1024,dlaGlobalDRAM:512
  --timingCacheFile="$OUT/timing.cache"
  --profilingVerbosity=detailed
  --verbose
  --skipInference
)
"$TRTEXEC" "${arguments[@]}" 2>&1 | tee "$OUT/build.log"

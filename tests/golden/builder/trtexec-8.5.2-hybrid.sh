#!/usr/bin/env bash
# small for agx-orin-64gb, hybrid, int8.
# Written by edgedla VERSION for trtexec of TensorRT 8.5.2.
# Plan made for TensorRT 10.3.0; model sha256 abababababababab.
# usage: script [MODEL.onnx [OUTPUT_FOLDER]]; TRTEXEC=... names another trtexec.
# NOT EXPRESSED: --layerDeviceTypes: not in this release; the 1 GPU layers fall back by themselves
set -euo pipefail
TRTEXEC="${TRTEXEC:-$(command -v trtexec || echo /usr/src/tensorrt/bin/trtexec)}"
MODEL=small.onnx
if [ "$#" -ge 1 ]; then MODEL="$1"; fi
OUT="${2:-.}"
mkdir -p "$OUT"
cat > "$OUT/calib.cache" <<'EDGEDLA_CALIBRATION_CACHE'
TRT-8502-EntropyCalibration2
a: 3d010204
b: 3d010204
image: 3c010204
probabilities: 3c010204
EDGEDLA_CALIBRATION_CACHE
arguments=(
  --onnx="$MODEL"
  --saveEngine="$OUT/model.engine"
  --useDLACore=0
  --allowGPUFallback
  --fp16
  --int8
  --calib="$OUT/calib.cache"
  --memPoolSize=dlaSRAM:1,dlaLocalDRAM:1024,dlaGlobalDRAM:512
  --layerPrecisions=relu:fp16
  --precisionConstraints=prefer
  --timingCacheFile="$OUT/timing.cache"
  --profilingVerbosity=detailed
  --exportLayerInfo="$OUT/layers.json"
  --verbose
  --buildOnly
)
"$TRTEXEC" "${arguments[@]}" 2>&1 | tee "$OUT/build.log"

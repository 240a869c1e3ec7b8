#!/usr/bin/env bash
# small for agx-orin-64gb, standalone, int8.
# Written by edgedla VERSION for trtexec of TensorRT 8.5.2.
# Plan made for TensorRT 10.3.0; model sha256 abababababababab.
# usage: script [MODEL.onnx [OUTPUT_FOLDER]]; TRTEXEC=... names another trtexec.
# NOT EXPRESSED: --buildDLAStandalone: arrives with 8.6. --safe with a DLA core asks for the same here, but the trtexec that JetPack 5 ships was built without it: NVIDIA's sample patches and rebuilds it. `edgedla build` on the device needs no patch
# note: a good build ends with [E] 'Cannot deserialize serialized engine built with EngineCapability::kDLA_STANDALONE' and PASSED: this trtexec tries to load what only cuDLA can
# note: image: DLA_HWC4 under the older name that this trtexec takes, CHW4
# note: probabilities: DLA_LINEAR under the older name that this trtexec takes, LINEAR
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
  --saveEngine="$OUT/model.dla.bin"
  --useDLACore=0
  --directIO
  --safe
  --fp16
  --int8
  --calib="$OUT/calib.cache"
  --inputIOFormats=int8:chw4
  --outputIOFormats=int8:chw
  --memPoolSize=dlaSRAM:1,dlaLocalDRAM:1024,dlaGlobalDRAM:512
  --layerPrecisions=relu:fp16
  --precisionConstraints=prefer
  --timingCacheFile="$OUT/timing.cache"
  --profilingVerbosity=detailed
  --verbose
  --buildOnly
)
"$TRTEXEC" "${arguments[@]}" 2>&1 | tee "$OUT/build.log"

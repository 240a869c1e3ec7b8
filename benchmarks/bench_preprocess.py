"""Preprocessing of a camera frame: the fused CUDA kernel against a copy of its bytes and single steps; the CPU path.

    python benchmarks/bench_preprocess.py [--gpu] [--json FILE]

Prints ratios measured in one run. `--gpu` needs pycuda, nvcc and a CUDA device.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
import time

import numpy as np

from edgedla.formats import TensorFormat
from edgedla.preprocess.preprocess import CpuPreprocessor, Preprocess

CASES = [
    ("1080p NV12 to 640x640 INT8 DLA_HWC4", (1080, 1920), "nv12", "INT8", TensorFormat.DLA_HWC4),
    ("1080p NV12 to 640x640 INT8 CHW32", (1080, 1920), "nv12", "INT8", TensorFormat.CHW32),
    ("1080p NV12 to 640x640 FP16 CHW16", (1080, 1920), "nv12", "HALF", TensorFormat.CHW16),
    ("1080p BGR to 640x640 FP16 DLA_LINEAR", (1080, 1920), "bgr", "HALF", TensorFormat.DLA_LINEAR),
    ("900p BGR to 640x640 INT8 DLA_HWC4", (900, 1600), "bgr", "INT8", TensorFormat.DLA_HWC4),
]

STEPS = r"""
#include <cuda_fp16.h>
__device__ int clampi(int v, int h) { return min(max(v, 0), h); }
extern "C" __global__ void nv12(const unsigned char* s, uchar3* d, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int l = max((int)s[y * w + x] - 16, 0) * 1220542 + (1 << 19);
    const unsigned char* uv = s + w * h + (y >> 1) * w + (x & ~1);
    int u = uv[0] - 128, v = uv[1] - 128;
    d[y * w + x] = make_uchar3(clampi((l + 2116026 * u) >> 20, 255), clampi((l - 409993 * u - 852492 * v) >> 20, 255),
                               clampi((l + 1673527 * v) >> 20, 255));
}
extern "C" __global__ void resize(const uchar3* s, uchar3* d, int sh, int sw, int dh, int dw, int oy, int ox, int ih, int iw,
                                  float ky, float kx, int pad) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= dw || y >= dh) return;
    int i = x - ox, j = y - oy;
    uchar3 r = make_uchar3(pad, pad, pad);
    if (i >= 0 && i < iw && j >= 0 && j < ih) {
        float fx = (i + .5f) * kx - .5f, fy = (j + .5f) * ky - .5f;
        int x0 = floorf(fx), y0 = floorf(fy);
        float a = fx - x0, b = fy - y0;
        int x1 = clampi(x0 + 1, sw - 1), y1 = clampi(y0 + 1, sh - 1);
        x0 = clampi(x0, sw - 1); y0 = clampi(y0, sh - 1);
        uchar3 p = s[y0 * sw + x0], q = s[y0 * sw + x1], t = s[y1 * sw + x0], u = s[y1 * sw + x1];
#define MIX(c) (unsigned char)rintf((p.c * (1 - a) + q.c * a) * (1 - b) + (t.c * (1 - a) + u.c * a) * b)
        r = make_uchar3(MIX(x), MIX(y), MIX(z));
    }
    d[y * dw + x] = r;
}
extern "C" __global__ void normalise(const uchar3* s, float* d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar3 p = s[i];
    d[i] = p.z / 255.f; d[n + i] = p.y / 255.f; d[2 * n + i] = p.x / 255.f;
}
extern "C" __global__ void to_int8(const float* s, signed char* d, int n, float inv) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float v = s[i] * inv; d[i] = (signed char)fminf(fmaxf(truncf(v + copysignf(.5f, v)), -128.f), 127.f); }
}
extern "C" __global__ void to_half(const float* s, __half* d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] = __float2half_rn(s[i]);
}
// Any element size: planes to [groups][row_elements] cells of `vector` channels; the target was cleared.
extern "C" __global__ void reorder(const unsigned char* s, unsigned char* d, int h, int w, int row, int vector, int size) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.z;
    if (x >= w || y >= h) return;
    long long from = ((long long)(c * h + y) * w + x) * size;
    long long to = (vector == 1 ? ((long long)(c * h + y) * row + x) : ((long long)y * row + x * vector + c)) * size;
    for (int b = 0; b < size; ++b) d[to + b] = s[from + b];
}
"""


def spec_of(case) -> Preprocess:
    _, hw, pixels, dtype, fmt = case
    return Preprocess(
        hw, (3, 640, 640), pixels=pixels, dtype=dtype, scale=1 / 127 if dtype == "INT8" else None, format=fmt, chip="orin"
    )


def median_ms(call, repeat: int = 30) -> float:
    times = []
    for _ in range(repeat + 3):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times[3:])


def cpu(case) -> dict:
    spec = spec_of(case)
    frame = np.random.default_rng(0).integers(0, 256, spec.frame_shape, np.uint8)
    one, copy = CpuPreprocessor(spec), np.empty_like(frame)
    out = np.empty(spec.layout.storage_shape, np.int8 if spec.dtype == "INT8" else np.float16)
    run, ref = median_ms(lambda: one(frame, out)), median_ms(lambda: np.copyto(copy, frame))
    return {"case": case[0], "cpu_ms": round(run, 3), "frame_copy_ms": round(ref, 3), "ratio": round(run / ref, 1)}


def gpu(case, batch: int = 16) -> dict:
    from pycuda import driver, gpuarray
    from pycuda.compiler import SourceModule

    from edgedla.runtime.preprocess.cuda_preprocess import CudaPreprocessor

    spec = spec_of(case)
    rng = np.random.default_rng(0)
    frames = gpuarray.to_gpu(rng.integers(0, 256, (batch, *spec.frame_shape), np.uint8))
    out = gpuarray.zeros(batch * spec.layout.size_bytes, np.uint8)
    fused = CudaPreprocessor(spec)
    touched = frames.nbytes + out.nbytes
    a, b = gpuarray.zeros(touched // 2, np.uint8), gpuarray.zeros(touched // 2, np.uint8)
    (sh, sw), (dh, dw), g = spec.frame_hw, spec.input_chw[1:], spec.geometry
    m = SourceModule(STEPS, options=["-O3"], no_extern_c=True)
    f = {n: m.get_function(n) for n in ("nv12", "resize", "normalise", "to_int8", "to_half", "reorder")}
    bgr = gpuarray.zeros((sh, sw, 3), np.uint8)
    small, planes = gpuarray.zeros((dh, dw, 3), np.uint8), gpuarray.zeros((3, dh, dw), np.float32)
    size = spec.layout.element_bytes
    typed = gpuarray.zeros(3 * dh * dw * size, np.uint8)
    _, _, _, row, vector = spec.layout.storage_shape
    blk = (32, 8, 1)
    i4, f4 = np.int32, np.float32

    def grid(h, w, z=1):
        return (-(-w // 32), -(-h // 8), z)

    def steps() -> None:
        frame_bytes = frames.nbytes // batch
        for k in range(batch):
            src = int(frames.gpudata) + k * frame_bytes
            if spec.pixels == "nv12":
                f["nv12"](np.uintp(src), bgr.gpudata, i4(sh), i4(sw), block=blk, grid=grid(sh, sw))
                src = int(bgr.gpudata)
            f["resize"](
                np.uintp(src),
                small.gpudata,
                i4(sh),
                i4(sw),
                i4(dh),
                i4(dw),
                i4(g.offset_xy[1]),
                i4(g.offset_xy[0]),
                i4(g.size_hw[0]),
                i4(g.size_hw[1]),
                f4(g.step_xy[1]),
                f4(g.step_xy[0]),
                i4(spec.pad),
                block=blk,
                grid=grid(dh, dw),
            )
            n = dh * dw
            f["normalise"](small.gpudata, planes.gpudata, i4(n), block=(256, 1, 1), grid=(-(-n // 256), 1))
            if spec.dtype == "INT8":
                f["to_int8"](
                    planes.gpudata, typed.gpudata, i4(3 * n), f4(1 / spec.scale), block=(256, 1, 1), grid=(-(-3 * n // 256), 1)
                )
            else:
                f["to_half"](planes.gpudata, typed.gpudata, i4(3 * n), block=(256, 1, 1), grid=(-(-3 * n // 256), 1))
            to = np.uintp(int(out.gpudata) + k * spec.layout.size_bytes)
            f["reorder"](
                typed.gpudata, to, i4(dh), i4(dw), i4(row * vector), i4(vector), i4(size), block=blk, grid=grid(dh, dw, 3)
            )

    def timed(call, inner: int) -> float:
        start, end = driver.Event(), driver.Event()
        times = []
        for _ in range(13):
            start.record()
            for _ in range(inner):
                call()
            end.record()
            end.synchronize()
            times.append(start.time_till(end) / inner * 1e3)
        return statistics.median(times[3:])

    fused(frames.gpudata, out.gpudata, batch)
    one = out.get()
    out.fill(0)
    steps()
    kind = np.int8 if spec.dtype == "INT8" else np.float16
    if not one.any():
        raise SystemExit("the fused kernel wrote nothing")
    diff = np.abs(one.view(kind).astype(np.float32) - out.get().view(kind).astype(np.float32)).max()
    fused_us = timed(lambda: fused(frames.gpudata, out.gpudata, batch), 50) / batch
    copy_us = timed(lambda: driver.memcpy_dtod_async(b.gpudata, a.gpudata, a.nbytes), 50) / batch
    steps_us = timed(steps, 5) / batch
    return {
        "case": case[0],
        "batch": batch,
        "fused_us_per_frame": round(fused_us, 3),
        "copy_us_per_frame": round(copy_us, 3),
        "steps_us_per_frame": round(steps_us, 3),
        "fused_over_copy": round(fused_us / copy_us, 2),
        "steps_over_fused": round(steps_us / fused_us, 2),
        "largest_difference_to_steps": float(diff),
        "frame_and_result_bytes": touched // batch,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--json")
    a = parser.parse_args()
    document = {
        "command": "python " + " ".join(sys.argv),
        "date": datetime.date.today().isoformat(),
        "python": sys.version.split()[0],
    }
    document["cpu"] = [cpu(c) for c in CASES]
    for row in document["cpu"]:
        print(f"{row['case']:40} CPU {row['cpu_ms']:8.3f} ms, {row['ratio']:5.1f} x a copy of the frame")
    if a.gpu:
        from pycuda import driver

        driver.init()
        device = driver.Device(0)
        context = device.retain_primary_context()
        context.push()
        document["device"] = {
            "name": device.name(),
            "driver_api": driver.get_driver_version(),
            "cuda": list(driver.get_version()),
        }
        try:
            document["gpu"] = [gpu(c) for c in CASES]
        finally:
            context.pop()
        for row in document["gpu"]:
            print(
                f"{row['case']:40} fused {row['fused_us_per_frame']:7.3f} us, {row['fused_over_copy']:5.2f} x a copy of the same bytes, "
                f"single steps {row['steps_over_fused']:5.2f} x the fused kernel, difference {row['largest_difference_to_steps']}"
            )
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(document, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()

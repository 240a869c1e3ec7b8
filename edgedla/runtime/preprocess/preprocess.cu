// Camera frame to network input in one pass: sample, convert colour, normalise, quantise, store in a DLA tensor format.
//
// One thread makes one output pixel of one frame of the batch. Compile-time macros choose the variant:
//   SOURCE   0 three bytes a pixel, 1 NV12 (Y plane, then interleaved UV; read as BGR; YUV_*: its colours)
//   INT8     0 FP16 output, 1 INT8 output
//   FLOAT32  1 FP32 output (LAYOUT 0 only), whatever INT8 says
//   LAYOUT   0 LINEAR and DLA_LINEAR (planes, row stride given), 1 DLA_HWC4, 2 CHW16 (FP16), 3 CHW32 (INT8)
#include <cuda_fp16.h>

struct Params {
    int src_h, src_w, src_stride;      // frame size in pixels, row stride in bytes
    int dst_h, dst_w;                  // network input size in pixels
    int off_x, off_y, in_w, in_h;      // where the resized image lies in the network input, in pixels
    float step_x, step_y;              // source pixels per destination pixel
    int org_x, org_y, cut_w, cut_h;    // the rectangle of the frame that is used, in pixels
    float mul[3], add[3];              // value = pixel * mul + add, already divided by the INT8 scale
    float pad[3];                      // stored value outside the image, same unit
    int swap;                          // 1: store the channels in reversed order
    int row_elements, plane_elements;  // strides of the output, in elements (HWC4: row in elements of 4-channel pixels * 4)
    int frame_elements;                // elements of one frame of the output
    long long src_frame_bytes;         // bytes between two frames of the batch
};

#if FLOAT32
typedef float out_t;
__device__ __forceinline__ out_t store(float v) { return v; }
#elif INT8
typedef signed char out_t;
__device__ __forceinline__ out_t store(float v) {
    // Half away from zero, as the DLA rounds (TensorRT 8.6.1 developer guide, quantisation table).
    float r = truncf(v + copysignf(0.5f, v));
    return (out_t)fminf(fmaxf(r, -128.0f), 127.0f);
}
#else
typedef __half out_t;
__device__ __forceinline__ out_t store(float v) { return __float2half_rn(v); }
#endif

__device__ __forceinline__ int clampi(int v, int high) { return min(max(v, 0), high); }

__device__ __forceinline__ int3 pixel(const unsigned char* src, const Params& p, int x, int y) {
#if SOURCE == 1
    // The numbers of yuv.py, the same integers as on the CPU.
    int luma = max((int)src[(long long)y * p.src_stride + x] - YUV_BLACK, 0) * YUV_LUMA + (1 << 19);
    const unsigned char* uv = src + (long long)p.src_stride * p.src_h + (long long)(y >> 1) * p.src_stride + (x & ~1);
    int u = (int)uv[0] - 128, v = (int)uv[1] - 128;
    int b = clampi((luma + YUV_U_BLUE * u) >> 20, 255);
    int g = clampi((luma + YUV_U_GREEN * u + YUV_V_GREEN * v) >> 20, 255);
    int r = clampi((luma + YUV_V_RED * v) >> 20, 255);
    return make_int3(b, g, r);
#else
    const unsigned char* q = src + (long long)y * p.src_stride + 3 * x;
    return make_int3(q[0], q[1], q[2]);
#endif
}

__device__ __forceinline__ int mix(int p, int q, int r, int s, int a0, int a1, int b0, int b1) {
    int top = p * a0 + q * a1, low = r * a0 + s * a1;
    return clampi((((b0 * (top >> 4)) >> 16) + ((b1 * (low >> 4)) >> 16) + 2) >> 2, 255);
}

extern "C" __global__ void preprocess(const unsigned char* __restrict__ frames, out_t* __restrict__ out, Params p) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= p.dst_w || y >= p.dst_h) return;
    const unsigned char* src = frames + p.src_frame_bytes * blockIdx.z;
    out += (long long)p.frame_elements * blockIdx.z;

    float c[3] = {p.pad[0], p.pad[1], p.pad[2]};
    int ix = x - p.off_x, iy = y - p.off_y;
    if (ix >= 0 && ix < p.in_w && iy >= 0 && iy < p.in_h) {
        // cv2.resize of 8-bit images with INTER_LINEAR to the bit: half-pixel centres, edges repeated, weights in 1/2048.
        float fx = (ix + 0.5f) * p.step_x - 0.5f, fy = (iy + 0.5f) * p.step_y - 0.5f;
        int x0 = (int)floorf(fx), y0 = (int)floorf(fy);
        float ax = fx - x0, ay = fy - y0;
        int a1 = (int)rintf(ax * 2048.0f), a0 = (int)rintf((1.0f - ax) * 2048.0f);
        int b1 = (int)rintf(ay * 2048.0f), b0 = (int)rintf((1.0f - ay) * 2048.0f);
        int x1 = p.org_x + clampi(x0 + 1, p.cut_w - 1), y1 = p.org_y + clampi(y0 + 1, p.cut_h - 1);
        x0 = p.org_x + clampi(x0, p.cut_w - 1);
        y0 = p.org_y + clampi(y0, p.cut_h - 1);
        int3 a = pixel(src, p, x0, y0), b = pixel(src, p, x1, y0), d = pixel(src, p, x0, y1), e = pixel(src, p, x1, y1);
        int v[3] = {mix(a.x, b.x, d.x, e.x, a0, a1, b0, b1), mix(a.y, b.y, d.y, e.y, a0, a1, b0, b1),
                    mix(a.z, b.z, d.z, e.z, a0, a1, b0, b1)};
        for (int i = 0; i < 3; ++i) c[i] = v[p.swap ? 2 - i : i] * p.mul[i] + p.add[i];
    }

#if LAYOUT == 0
    for (int i = 0; i < 3; ++i) out[(long long)i * p.plane_elements + (long long)y * p.row_elements + x] = store(c[i]);
#elif LAYOUT == 1
#if INT8
    *(char4*)(out + (long long)y * p.row_elements + 4 * x) = make_char4(store(c[0]), store(c[1]), store(c[2]), 0);
#else
    __half2 pair[2] = {__halves2half2(store(c[0]), store(c[1])), __halves2half2(store(c[2]), __float2half_rn(0.0f))};
    *(uint2*)(out + (long long)y * p.row_elements + 4 * x) = *(uint2*)pair;
#endif
#else
    // CHW16 (FP16) and CHW32 (INT8): one 32-byte cell a pixel; the channels past the third are zero.
    __align__(16) out_t cell[32 / sizeof(out_t)] = {};
    for (int i = 0; i < 3; ++i) cell[i] = store(c[i]);
    uint4* to = (uint4*)(out + (long long)y * p.row_elements + (32 / sizeof(out_t)) * x);
    to[0] = ((uint4*)cell)[0];
    to[1] = ((uint4*)cell)[1];
#endif
}

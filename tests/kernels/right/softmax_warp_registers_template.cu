// problem: softmax
// assay: launch softmax_warp grid=(ceil_div(rows, 4)) block=(128) args=(x, y, rows, cols)
// style: after a framework's warp softmax: log2 of the elements picks a template that keeps the row in registers, else a loop
#include <cfloat>

template <int Log2> __device__ bool persistent(const float* in, float* out, int cols, int lane)
{
    constexpr int Each = (1 << Log2) / 32 > 0 ? (1 << Log2) / 32 : 1;
    if (cols > Each * 32) return false;
    float e[Each], top = -FLT_MAX, sum = 0.f;
#pragma unroll
    for (int i = 0; i < Each; ++i) {
        e[i] = lane + i * 32 < cols ? in[lane + i * 32] : -FLT_MAX;
        top = top > e[i] ? top : e[i];
    }
#pragma unroll
    for (int d = 16; d; d /= 2) {
        const float o = __shfl_xor_sync(0xffffffff, top, d);
        top = top > o ? top : o;
    }
#pragma unroll
    for (int i = 0; i < Each; ++i) {
        e[i] = lane + i * 32 < cols ? expf(e[i] - top) : 0.f;
        sum += e[i];
    }
#pragma unroll
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
#pragma unroll
    for (int i = 0; i < Each; ++i)
        if (lane + i * 32 < cols) out[lane + i * 32] = e[i] / sum;
    return true;
}

__device__ void looping(const float* in, float* out, int cols, int lane)
{
    float top = -FLT_MAX, sum = 0.f;
    for (int c = lane; c < cols; c += 32) top = fmaxf(top, in[c]);
    for (int d = 16; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, d));
    for (int c = lane; c < cols; c += 32) sum += out[c] = expf(in[c] - top);
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
    for (int c = lane; c < cols; c += 32) out[c] /= sum;
}

__global__ void softmax_warp(const float* x, float* y, int rows, int cols)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float* out = y + (size_t)row * cols;
    if (!(persistent<5>(in, out, cols, lane) || persistent<7>(in, out, cols, lane) || persistent<10>(in, out, cols, lane)))
        looping(in, out, cols, lane);
}

// problem: row_sum
// assay: launch row_sum_peel grid=(ceil_div(rows, 8)) block=(32, 8) args=(x, y, rows, cols)
// style: rows that begin anywhere: elements up to the next 16 bytes are peeled, then float4, then the rest
#include <cstdint>

__global__ void row_sum_peel(const float* __restrict__ x, float* __restrict__ y, int rows, int cols)
{
    const int row = blockIdx.x * 8 + threadIdx.y;
    if (row >= rows) return;
    const float* p = x + (int64_t)row * cols;
    const float* const end = p + cols;
    const int ahead = min(cols, int((4 - ((reinterpret_cast<uintptr_t>(p) >> 2) & 3)) & 3));
    float s = (int)threadIdx.x < ahead ? p[threadIdx.x] : 0.0f;
    p += ahead;
    const int quads = int(end - p) / 4;
    const float4* q = reinterpret_cast<const float4*>(p);
    float4 a = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int i = threadIdx.x; i < quads; i += 32) {
        const float4 v = q[i];
        a.x += v.x, a.y += v.y, a.z += v.z, a.w += v.w;
    }
    p += quads * 4;
    if (threadIdx.x < end - p) s += p[threadIdx.x];
    s += (a.x + a.y) + (a.z + a.w);
    s += __shfl_xor_sync(~0u, s, 16);
    s += __shfl_xor_sync(~0u, s, 8);
    s += __shfl_xor_sync(~0u, s, 4);
    s += __shfl_xor_sync(~0u, s, 2);
    s += __shfl_xor_sync(~0u, s, 1);
    if (threadIdx.x == 0) y[row] = s;
}

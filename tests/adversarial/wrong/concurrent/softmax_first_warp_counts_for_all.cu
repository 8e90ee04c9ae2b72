// problem: softmax
// class: schedule
// race: last block
// must: anything but passed
// why: each of two warps of a block stores its part of the row's sum, but only warp 0 counts, after its own store: when four blocks are counted, their second warps may still be adding
// proof: __syncthreads() is missing before the count; nothing orders warp 1's store before warp 0's atomic
// assay: temp part float32 (rows * 8)
// assay: temp tops int32 (rows)
// assay: temp count uint32 (rows)
// assay: fill count value=0
// assay: launch parts grid=(rows, 4) block=(64) args=(x, y, part, count, cols)

__device__ float top_of(const float* in, int cols)
{
    float m = -INFINITY;
    for (int c = threadIdx.x % 32; c < cols; c += 32) m = fmaxf(m, in[c]);
    for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
    return m;
}

__global__ void parts(const float* x, float* y, float* part, unsigned* count, int cols)
{
    __shared__ unsigned order;
    const float* in = x + (size_t)blockIdx.x * cols;
    const float m = top_of(in, cols);
    float s = 0.0f;
    for (int c = blockIdx.y * 64 + threadIdx.x; c < cols; c += 256) s += expf(in[c] - m);
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) part[(size_t)blockIdx.x * 8 + blockIdx.y * 2 + threadIdx.x / 32] = s;
    __threadfence();
    if (threadIdx.x == 0) order = atomicAdd(&count[blockIdx.x], 1u);
    __syncthreads();
    __threadfence();
    if (order != 3) return;
    s = 0.0f;
    for (int p = 0; p < 8; ++p) s += part[(size_t)blockIdx.x * 8 + p];
    for (int c = threadIdx.x; c < cols; c += 64) y[(size_t)blockIdx.x * cols + c] = expf(in[c] - m) / s;
}

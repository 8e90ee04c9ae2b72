// problem: softmax
// class: sizes
// must: anything but passed
// why: a thread keeps its part of the row in 8 registers, so the columns from 8,192 on are neither counted nor written (published rows end at 5,000, allowed are 40,000)
// proof: assay grade --size rows=2 --size cols=8200 refuses it
// assay: launch softmax_reg grid=(rows) block=(1024) args=(x, y, cols)

#define PER_THREAD 8
#define THREADS 1024

template <class Op>
__device__ __forceinline__ float block_all_reduce(float v, Op op, float neutral)
{
    __shared__ float warps[32];
    for (int o = 16; o > 0; o >>= 1) v = op(v, __shfl_xor_sync(0xFFFFFFFFu, v, o));
    __syncthreads();
    if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = v;
    __syncthreads();
    v = warps[threadIdx.x & 31];
    for (int o = 16; o > 0; o >>= 1) v = op(v, __shfl_xor_sync(0xFFFFFFFFu, v, o));
    return v;
}

__global__ void __launch_bounds__(THREADS) softmax_reg(const float* __restrict__ x, float* __restrict__ y, int cols)
{
    x += (size_t)blockIdx.x * cols;
    y += (size_t)blockIdx.x * cols;
    float row[PER_THREAD];
    float top = -INFINITY;
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) {
        const int c = j * THREADS + threadIdx.x;
        row[j] = c < cols ? x[c] : -INFINITY;
        top = fmaxf(top, row[j]);
    }
    top = block_all_reduce(top, [](float p, float q) { return fmaxf(p, q); }, -INFINITY);
    float sum = 0.f;
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) {
        row[j] = expf(row[j] - top);
        sum += row[j];
    }
    sum = block_all_reduce(sum, [](float p, float q) { return p + q; }, 0.f);
    const float inv = 1.f / sum;
#pragma unroll
    for (int j = 0; j < PER_THREAD; ++j) {
        const int c = j * THREADS + threadIdx.x;
        if (c < cols) y[c] = row[j] * inv;
    }
}

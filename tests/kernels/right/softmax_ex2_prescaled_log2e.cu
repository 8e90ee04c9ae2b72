// problem: softmax
// style: as in flash attention: x * log2(e) - max * log2(e) in one fused operation, ex2.approx.ftz in PTX, __fdividef at the end
// assay: launch softmax_ex2 grid=(rows) block=(64) args=(x, y, cols)
__device__ float ex2(float v)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__global__ void softmax_ex2(const float* __restrict__ x, float* __restrict__ y, int cols)
{
    const float log2e = 1.4426950408889634f;
    __shared__ float shared[2];
    x += (size_t)blockIdx.x * cols;
    y += (size_t)blockIdx.x * cols;
    float top = -INFINITY;
    for (int j = threadIdx.x; j < cols; j += 64) top = fmaxf(top, x[j]);
    for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = top;
    __syncthreads();
    top = fmaxf(shared[0], shared[1]) * log2e;
    __syncthreads();
    float sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 64) sum += ex2(fmaf(x[j], log2e, -top));
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = shared[0] + shared[1];
    for (int j = threadIdx.x; j < cols; j += 64) y[j] = __fdividef(ex2(fmaf(x[j], log2e, -top)), sum);
}

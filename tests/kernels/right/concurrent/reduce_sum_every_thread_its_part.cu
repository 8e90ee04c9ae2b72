// problem: reduce_sum
// assay: temp part float32 (64 * 128)
// assay: temp count uint32 (1)
// assay: fill count value=0
// assay: launch sum_parts grid=(64) block=(128) args=(x, part, count, total, n)
// style: every thread leaves a part; barrier, then fence, counter and fence in thread 0, then a barrier: fences are cumulative
__global__ void sum_parts(const float* x, float* part, unsigned* count, float* total, int n)
{
    __shared__ unsigned place;
    __shared__ float all[128];
    float s = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 64 * 128) s += x[i];
    part[blockIdx.x * 128 + threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        place = atomicAdd(count, 1u);
        __threadfence();
    }
    __syncthreads();
    if (place != 63) return;
    s = 0.0f;
    for (int b = 0; b < 64; ++b) s += part[b * 128 + (threadIdx.x ^ 1)];
    all[threadIdx.x] = s;
    for (int h = 64; h; h >>= 1) {
        __syncthreads();
        if (threadIdx.x < h) all[threadIdx.x] += all[threadIdx.x + h];
    }
    if (threadIdx.x == 0) *total = all[0];
}

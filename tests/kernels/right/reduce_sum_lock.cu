// problem: reduce_sum
// assay: temp lock int32 (1)
// assay: fill lock value=0
// assay: fill total value=0
// assay: launch locked_sum grid=(min(ceil_div(n, 2048), 48)) block=(256) args=(x, total, lock, n)
// style: a hand-made lock: atomicCAS, __nanosleep, fences on both sides, atomicExch to let go
__device__ void take(int* lock)
{
    unsigned ns = 8;
    while (atomicCAS(lock, 0, 1) != 0) {
        __nanosleep(ns);
        if (ns < 256) ns *= 2;
    }
    __threadfence();
}

__device__ void let_go(int* lock)
{
    __threadfence();
    atomicExch(lock, 0);
}

__global__ void locked_sum(const float* x, volatile float* total, int* lock, int n)
{
    __shared__ float warps[8];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int d = 1; d < 32; d *= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) sum += warps[w];
        take(lock);
        *total = *total + sum;
        let_go(lock);
    }
}

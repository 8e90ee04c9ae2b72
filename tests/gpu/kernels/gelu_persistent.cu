// problem: gelu
// style: as many blocks as the GPU holds, which draw their tiles from a counter until none is left
// assay: temp drawn uint32 (1)
// assay: fill drawn value=0
// assay: launch work grid=(264) block=(256) args=(x, y, drawn, n)

__global__ void work(const float* x, float* y, unsigned* drawn, int n)
{
    __shared__ unsigned tile;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0) tile = atomicAdd(drawn, 1);
        __syncthreads();
        long long first = tile * 1024ll;
        if (first >= n) return;
        for (long long i = first + threadIdx.x; i < first + 1024 && i < n; i += 256) {
            y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678118654752f));
        }
    }
}

// problem: reduce_sum
// class: schedule
// race: lost update
// must: anything but passed
// why: the first lanes of eight warps add to one volatile word of shared memory; volatile is a load, an addition and a store, so two warps that load the same value lose one sum
// proof: CUDA guide, volatile: no atomicity; PTX: volatile is relaxed, and only atom and red are read-modify-write
// assay: temp parts float32 (min(ceil_div(n, 1024), 256))
// assay: launch parts_of grid=(min(ceil_div(n, 1024), 256)) block=(256) args=(x, parts, n)
// assay: launch parts_of grid=(1) block=(256) args=(parts, total, min(ceil_div(n, 1024), 256))

__global__ void parts_of(const float* x, float* parts, int n)
{
    __shared__ volatile float sum;
    if (threadIdx.x == 0) sum = 0.0f;
    float s = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) s += x[i];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sum += s;
    __syncthreads();
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

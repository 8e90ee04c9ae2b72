// problem: reduce_sum
// assay: temp g_odata float32 (64)
// assay: launch reduce6<512> grid=(64) block=(512) shared=(512 * 4) args=(x, g_odata, n)
// assay: launch reduce6<32> grid=(1) block=(32) shared=(64 * 4) args=(g_odata, total, 64)
// style: the reduction lecture, step 7: many elements a thread in a grid of 64 blocks, volatile for the last warp
template <unsigned int blockSize> __device__ void warpReduce(volatile float* sdata, unsigned int tid)
{
    float v = sdata[tid];
    if (blockSize >= 64) { v += sdata[tid + 32]; __syncwarp(); sdata[tid] = v; __syncwarp(); }
    for (unsigned int d = 16; d > 0; d >>= 1) {
        v += sdata[tid + d];
        __syncwarp();
        sdata[tid] = v;
        __syncwarp();
    }
}

template <unsigned int blockSize>
__global__ void reduce6(const float* g_idata, float* g_odata, unsigned int n)
{
    extern __shared__ float sdata[];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * (blockSize * 2) + tid;
    unsigned int gridSize = blockSize * 2 * gridDim.x;
    float sum = 0;
    while (i < n) {
        sum += g_idata[i];
        if (i + blockSize < n) sum += g_idata[i + blockSize];
        i += gridSize;
    }
    sdata[tid] = sum;
    if (blockSize < 64) sdata[tid + blockSize] = 0;
    __syncthreads();
    if (blockSize >= 512) { if (tid < 256) { sdata[tid] += sdata[tid + 256]; } __syncthreads(); }
    if (blockSize >= 256) { if (tid < 128) { sdata[tid] += sdata[tid + 128]; } __syncthreads(); }
    if (blockSize >= 128) { if (tid < 64) { sdata[tid] += sdata[tid + 64]; } __syncthreads(); }
    if (tid < 32) warpReduce<blockSize>(sdata, tid);
    if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}
template __global__ void reduce6<512>(const float*, float*, unsigned int);
template __global__ void reduce6<32>(const float*, float*, unsigned int);

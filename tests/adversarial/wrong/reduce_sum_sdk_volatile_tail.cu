// problem: reduce_sum
// class: warp
// must: anything but passed
// why: the last warp goes on without barriers, on volatile shared memory, as samples did before Volta: nothing orders the lanes' reads and writes (CUDA guide, independent thread scheduling)
// proof: the guide's Volta compatibility section: such code must use __syncwarp between the steps
// assay: temp part float32 (ceil_div(n, 1024))
// assay: launch reduce5 grid=(ceil_div(n, 1024)) block=(512) args=(x, part, n)
// assay: launch reduce_rest grid=(1) block=(512) args=(part, total, ceil_div(n, 1024))

template <unsigned int blockSize>
__device__ void warpReduce(volatile float *sdata, unsigned int tid)
{
    if (blockSize >= 64) sdata[tid] += sdata[tid + 32];
    if (blockSize >= 32) sdata[tid] += sdata[tid + 16];
    if (blockSize >= 16) sdata[tid] += sdata[tid + 8];
    if (blockSize >= 8) sdata[tid] += sdata[tid + 4];
    if (blockSize >= 4) sdata[tid] += sdata[tid + 2];
    if (blockSize >= 2) sdata[tid] += sdata[tid + 1];
}

template <unsigned int blockSize>
__device__ void finish(float *sdata, float mySum, float *to)
{
    const unsigned int tid = threadIdx.x;
    sdata[tid] = mySum;
    __syncthreads();
    if (blockSize >= 512) { if (tid < 256) { sdata[tid] += sdata[tid + 256]; } __syncthreads(); }
    if (blockSize >= 256) { if (tid < 128) { sdata[tid] += sdata[tid + 128]; } __syncthreads(); }
    if (blockSize >= 128) { if (tid < 64) { sdata[tid] += sdata[tid + 64]; } __syncthreads(); }
    if (tid < 32) warpReduce<blockSize>(sdata, tid);
    if (tid == 0) *to = sdata[0];
}

extern "C" __global__ void reduce5(const float *g_idata, float *g_odata, unsigned int n)
{
    __shared__ float sdata[512];
    unsigned int i = blockIdx.x * (512 * 2) + threadIdx.x;
    float mySum = (i < n) ? g_idata[i] : 0;
    if (i + 512 < n) mySum += g_idata[i + 512];
    finish<512>(sdata, mySum, g_odata + blockIdx.x);
}

extern "C" __global__ void reduce_rest(const float *g_idata, float *g_odata, unsigned int n)
{
    __shared__ float sdata[512];
    float mySum = 0;
    for (unsigned int i = threadIdx.x; i < n; i += 512) mySum += g_idata[i];
    finish<512>(sdata, mySum, g_odata);
}

// problem: reduce_sum
// assay: temp p float32 (ceil_div(n, 512))
// assay: temp q float32 (ceil_div(n, 512 * 512))
// assay: launch reduce5<256> grid=(ceil_div(n, 512)) block=(256) args=(x, p, n)
// assay: launch reduce5<256> grid=(ceil_div(n, 512 * 512)) block=(256) args=(p, q, ceil_div(n, 512))
// assay: launch reduce5<64> grid=(1) block=(64) args=(q, total, ceil_div(n, 512 * 512))
// style: the reduction lecture, step 6: the block size is a template parameter and everything is unrolled
template <unsigned int blockSize>
__global__ void reduce5(const float* g_idata, float* g_odata, unsigned int n)
{
    __shared__ float sdata[blockSize];
    const unsigned int tid = threadIdx.x;
    float mySum = 0;
    for (unsigned int i = blockIdx.x * (blockSize * 2) + tid; i < n; i += blockSize * 2 * gridDim.x) {
        mySum += g_idata[i];
        if (i + blockSize < n) mySum += g_idata[i + blockSize];
    }
    sdata[tid] = mySum;
    __syncthreads();
    if (blockSize >= 512) { if (tid < 256) sdata[tid] = mySum = mySum + sdata[tid + 256]; __syncthreads(); }
    if (blockSize >= 256) { if (tid < 128) sdata[tid] = mySum = mySum + sdata[tid + 128]; __syncthreads(); }
    if (blockSize >= 128) { if (tid < 64) sdata[tid] = mySum = mySum + sdata[tid + 64]; __syncthreads(); }
    if (tid < 32) {
        if (blockSize >= 64) mySum += sdata[tid + 32];
        for (int offset = 16; offset > 0; offset /= 2) mySum += __shfl_down_sync(0xffffffff, mySum, offset);
    }
    if (tid == 0) g_odata[blockIdx.x] = mySum;
}
template __global__ void reduce5<256>(const float*, float*, unsigned int);
template __global__ void reduce5<64>(const float*, float*, unsigned int);

// problem: reduce_sum
// assay: temp sums float32 (ceil_div(n, 2048))
// assay: temp more float32 (ceil_div(n, 2048 * 2048))
// assay: launch reduce3 grid=(ceil_div(n, 2048)) block=(1024) args=(x, sums, n)
// assay: launch reduce3 grid=(ceil_div(n, 2048 * 2048)) block=(1024) args=(sums, more, ceil_div(n, 2048))
// assay: launch reduce3 grid=(1) block=(1024) args=(more, total, ceil_div(n, 2048 * 2048))
// style: the reduction lecture, step 4: first add during the load; blocks of 1024 threads
__global__ void __launch_bounds__(1024) reduce3(const float* __restrict__ g_idata, float* __restrict__ g_odata, unsigned int n)
{
    __shared__ float sdata[1024];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;

    float mySum = (i < n) ? g_idata[i] : 0;
    if (i + blockDim.x < n) mySum += g_idata[i + blockDim.x];
    sdata[tid] = mySum;
    __syncthreads();

    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) sdata[tid] = mySum = mySum + sdata[tid + s];
        __syncthreads();
    }
    if (tid == 0) g_odata[blockIdx.x] = mySum;
}

// problem: prefix_sum
// class: schedule
// race: divergence
// must: anything but passed
// why: a Hillis-Steele scan in volatile shared memory within a warp, as in the SDK: each step reads what other lanes wrote in the step before, without __syncwarp(): right only in lockstep
// proof: CUDA guide, independent thread scheduling: implicit warp-synchronous code is not safe since Volta; volatile is no barrier
// assay: temp sums float32 (ceil_div(n, 256))
// assay: launch scan_tiles grid=(ceil_div(n, 256)) block=(256) args=(x, y, sums, n)
// assay: launch scan_sums grid=(1) block=(1) args=(sums, ceil_div(n, 256))
// assay: launch add_sums grid=(ceil_div(n, 256)) block=(256) args=(y, sums, n)

__device__ float scan1Inclusive(float v, volatile float* s_Data)
{
    unsigned pos = 2 * threadIdx.x - (threadIdx.x & 31);
    s_Data[pos] = 0;
    pos += 32;
    s_Data[pos] = v;
    for (unsigned offset = 1; offset < 32; offset <<= 1) s_Data[pos] += s_Data[pos - offset];
    return s_Data[pos];
}

__global__ void scan_tiles(const float* x, float* y, float* sums, int n)
{
    __shared__ float data[512], ends[8];
    const int i = blockIdx.x * 256 + threadIdx.x;
    float v = scan1Inclusive(i < n ? x[i] : 0.0f, data);
    if (threadIdx.x % 32 == 31) ends[threadIdx.x / 32] = v;
    __syncthreads();
    for (int w = 0; w < threadIdx.x / 32; ++w) v += ends[w];
    if (i < n) y[i] = v;
    if (threadIdx.x == 255) sums[blockIdx.x] = v;
}

__global__ void scan_sums(float* sums, int count)
{
    float run = 0.0f;
    for (int b = 0; b < count; ++b) {
        const float v = sums[b];
        sums[b] = run;
        run += v;
    }
}

__global__ void add_sums(float* y, const float* sums, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] += sums[blockIdx.x];
}

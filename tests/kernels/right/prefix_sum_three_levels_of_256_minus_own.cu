// problem: prefix_sum
// style: three levels of 256 with one element a thread, "exclusive = inclusive - x" in place at each of the upper ones
// assay: temp first float32 (ceil_div(n, 256))
// assay: temp second float32 (ceil_div(n, 65536))
// assay: launch scan_level grid=(ceil_div(n, 256)) block=(256) args=(x, y, first, n, 0)
// assay: launch scan_level grid=(ceil_div(n, 65536)) block=(256) args=(first, first, second, ceil_div(n, 256), 1)
// assay: launch scan_top grid=(1) block=(256) args=(second, ceil_div(n, 65536))
// assay: launch add_level grid=(ceil_div(n, 65536)) block=(256) args=(first, second, ceil_div(n, 256))
// assay: launch add_level grid=(ceil_div(n, 256)) block=(256) args=(y, first, n)
__device__ float inclusive(float v)
{
    __shared__ float s[256];
    __syncthreads();
    s[threadIdx.x] = v;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        const float left = threadIdx.x >= d ? s[threadIdx.x - d] : 0.0f;
        __syncthreads();
        s[threadIdx.x] += left;
        __syncthreads();
    }
    return s[threadIdx.x];
}

__global__ void scan_level(const float* in, float* out, float* sums, int n, int exclusive)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float own = i < n ? in[i] : 0.0f, up_to = inclusive(own);
    if (i < n) out[i] = exclusive ? up_to - own : up_to;
    if (threadIdx.x == 255) sums[blockIdx.x] = up_to;
}

__global__ void scan_top(float* sums, int count)
{
    const float own = threadIdx.x < count ? sums[threadIdx.x] : 0.0f, up_to = inclusive(own);
    if (threadIdx.x < count) sums[threadIdx.x] = up_to - own;
}

__global__ void add_level(float* values, const float* sums, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) values[i] += sums[blockIdx.x];
}

// problem: prefix_sum
// assay: temp t1 float32 (ceil_div(n, 256))
// assay: temp t2 float32 (ceil_div(n, 65536))
// assay: launch hillis_steele grid=(ceil_div(n, 256)) block=(256) args=(x, y, t1, n)
// assay: launch hillis_steele grid=(ceil_div(n, 65536)) block=(256) args=(t1, t1, t2, ceil_div(n, 256))
// assay: launch scan_rest grid=(1) block=(256) args=(t2, ceil_div(n, 65536))
// assay: launch add_before grid=(ceil_div(n, 65536)) block=(256) args=(t1, t2, ceil_div(n, 256))
// assay: launch add_before grid=(ceil_div(n, 256)) block=(256) args=(y, t1, n)
// style: Hillis and Steele with two shared buffers that swap, on three levels (up to 2^25 and beyond)
__device__ float scan_block(float v)
{
    __shared__ float buffer[2][256];
    int in = 0;
    buffer[0][threadIdx.x] = v;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        const float mine = buffer[in][threadIdx.x];
        buffer[1 - in][threadIdx.x] = (int)threadIdx.x >= d ? mine + buffer[in][threadIdx.x - d] : mine;
        in = 1 - in;
        __syncthreads();
    }
    return buffer[in][threadIdx.x];
}

__global__ void hillis_steele(const float* x, float* y, float* totals, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float s = scan_block(i < n ? x[i] : 0.0f);
    if (i < n) y[i] = s;
    if (threadIdx.x == 255) totals[blockIdx.x] = s;
}

__global__ void scan_rest(float* t, int n)
{
    __shared__ float carry;
    if (threadIdx.x == 0) carry = 0.0f;
    for (int base = 0; base < n; base += 256) {
        const int i = base + threadIdx.x;
        __syncthreads();
        const float before = carry;
        const float s = scan_block(i < n ? t[i] : 0.0f) + before;
        if (i < n) t[i] = s;
        if (threadIdx.x == 255) carry = s;
    }
}

__global__ void add_before(float* y, const float* totals, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && blockIdx.x > 0) y[i] += totals[blockIdx.x - 1];
}

// problem: prefix_sum
// style: scan of blocks, scan of their totals, addition: three launches and a temporary
// assay: temp totals float32 (ceil_div(n, 512))
// assay: launch scan_blocks grid=(ceil_div(n, 512)) block=(512) args=(x, y, totals, n)
// assay: launch scan_totals grid=(1) block=(512) args=(totals, ceil_div(n, 512))
// assay: launch add_totals grid=(ceil_div(n, 512)) block=(512) args=(y, totals, n)

__device__ float inclusive(float value, float* s)
{
    s[threadIdx.x] = value;
    __syncthreads();
    for (int offset = 1; offset < 512; offset *= 2) {
        const float before = threadIdx.x >= offset ? s[threadIdx.x - offset] : 0.0f;
        __syncthreads();
        s[threadIdx.x] += before;
        __syncthreads();
    }
    return s[threadIdx.x];
}

__global__ void scan_blocks(const float* x, float* y, float* totals, int n)
{
    __shared__ float s[512];
    const int i = blockIdx.x * 512 + threadIdx.x;
    const float sum = inclusive(i < n ? x[i] : 0.0f, s);
    if (i < n) {
        y[i] = sum;
    }
    if (threadIdx.x == 511) {
        totals[blockIdx.x] = sum;
    }
}

__global__ void scan_totals(float* totals, int count)
{
    __shared__ float s[512];
    float carry = 0.0f;
    for (int start = 0; start < count; start += 512) {
        const int i = start + threadIdx.x;
        const float sum = carry + inclusive(i < count ? totals[i] : 0.0f, s);
        if (i < count) {
            totals[i] = sum;
        }
        carry += s[511];
        __syncthreads();
    }
}

__global__ void add_totals(float* y, const float* totals, int n)
{
    const int i = blockIdx.x * 512 + threadIdx.x;
    if (blockIdx.x > 0 && i < n) {
        y[i] += totals[blockIdx.x - 1];
    }
}

// problem: prefix_sum
// style: block totals are scanned inclusively in place; each block of 2048 takes its own kept total away again
// assay: temp total float32 (ceil_div(n, 2048))
// assay: temp scanned float32 (ceil_div(n, 2048))
// assay: launch local grid=(ceil_div(n, 2048)) block=(512) args=(x, y, total, n)
// assay: launch scan grid=(1) block=(512) args=(total, scanned, ceil_div(n, 2048))
// assay: launch shift grid=(ceil_div(n, 2048)) block=(512) args=(y, total, scanned, n)
__device__ float inclusive(float v, float* s)
{
    s[threadIdx.x] = v;
    for (int d = 1; d < 512; d *= 2) {
        __syncthreads();
        float left = threadIdx.x >= d ? s[threadIdx.x - d] : 0.0f;
        __syncthreads();
        s[threadIdx.x] = v = v + left;
    }
    __syncthreads();
    return v;
}

__global__ void local(const float* x, float* y, float* total, int n)
{
    __shared__ float s[512];
    int i = blockIdx.x * 2048 + threadIdx.x * 4;
    float a[4];
    for (int k = 0; k < 4; ++k) a[k] = i + k < n ? x[i + k] : 0.0f;
    a[1] += a[0];
    a[3] += a[2];
    a[2] += a[1];
    a[3] += a[1];
    float before = inclusive(a[3], s) - a[3];
    for (int k = 0; k < 4; ++k)
        if (i + k < n) y[i + k] = before + a[k];
    if (threadIdx.x == 511) total[blockIdx.x] = s[511];
}

__global__ void scan(const float* total, float* scanned, int count)
{
    __shared__ float s[512];
    float carry = 0.0f;
    for (int first = 0; first < count; first += 512) {
        int i = first + threadIdx.x;
        float v = inclusive(i < count ? total[i] : 0.0f, s);
        if (i < count) scanned[i] = carry + v;
        carry += s[511];
        __syncthreads();
    }
}

__global__ void shift(float* y, const float* total, const float* scanned, int n)
{
    float before = scanned[blockIdx.x] - total[blockIdx.x];
    for (int k = 0; k < 4; ++k) {
        int i = blockIdx.x * 2048 + k * 512 + threadIdx.x;
        if (i < n) y[i] += before;
    }
}

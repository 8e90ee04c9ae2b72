// problem: prefix_sum
// style: Sklansky's divide-and-conquer network in shared memory; block carries accumulate as doubles, the own sum taken away in double
// assay: temp sums float64 (ceil_div(n, 512))
// assay: launch up grid=(ceil_div(n, 512)) block=(256) args=(x, y, sums, n)
// assay: launch across grid=(1) block=(1) args=(sums, ceil_div(n, 512))
// assay: launch down grid=(ceil_div(n, 512)) block=(256) args=(y, sums, n)
__global__ void up(const float* x, float* y, double* sums, int n)
{
    __shared__ float s[512];
    const int first = blockIdx.x * 512;
    for (int k = threadIdx.x; k < 512; k += 256) s[k] = first + k < n ? x[first + k] : 0.0f;
    for (int d = 1; d < 512; d *= 2) {
        __syncthreads();
        const int low = (threadIdx.x / d) * 2 * d + d - 1, to = low + 1 + threadIdx.x % d;
        s[to] += s[low];
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 512; k += 256)
        if (first + k < n) y[first + k] = s[k];
    if (threadIdx.x == 0) sums[blockIdx.x] = s[511];
}

__global__ void across(double* sums, int count)
{
    double carry = 0.0;
    for (int b = 0; b < count; ++b) {
        const double own = sums[b];
        carry += own;
        sums[b] = carry - own;
    }
}

__global__ void down(float* y, const double* sums, int n)
{
    const int first = blockIdx.x * 512;
    for (int k = threadIdx.x; k < 512; k += 256)
        if (first + k < n) y[first + k] = (float)(sums[blockIdx.x] + y[first + k]);
}

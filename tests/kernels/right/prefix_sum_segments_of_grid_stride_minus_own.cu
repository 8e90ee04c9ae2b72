// problem: prefix_sum
// style: 120 blocks, a contiguous segment each (as CUB's even share), walked in tiles; the segment's own total is taken away from the inclusive one
// assay: temp total float32 (120)
// assay: launch reduce grid=(120) block=(128) args=(x, total, n)
// assay: launch scan grid=(120) block=(128) args=(x, total, y, n)
__device__ int share(int n) { return (n + 119) / 120 + 127 & ~127; }

__global__ void reduce(const float* x, float* total, int n)
{
    __shared__ float s[128];
    const int first = blockIdx.x * share(n), last = min(n, first + share(n));
    float sum = 0.0f;
    for (int i = first + (int)threadIdx.x; i < last; i += 128) sum += x[i];
    s[threadIdx.x] = sum;
    for (int d = 64; d; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    }
    if (threadIdx.x == 0) total[blockIdx.x] = s[0];
}

__global__ void scan(const float* x, const float* total, float* y, int n)
{
    __shared__ float s[128];
    const int first = blockIdx.x * share(n), last = min(n, first + share(n));
    float carry = 0.0f;
    for (int b = 0; b <= blockIdx.x; ++b) carry += total[b];
    carry -= total[blockIdx.x];
    for (int base = first; base < last; base += 128) {
        const int i = base + threadIdx.x;
        float v = i < last ? x[i] : 0.0f;
        s[threadIdx.x] = v;
        for (int d = 1; d < 128; d *= 2) {
            __syncthreads();
            const float left = threadIdx.x >= d ? s[threadIdx.x - d] : 0.0f;
            __syncthreads();
            s[threadIdx.x] += left;
        }
        __syncthreads();
        if (i < last) y[i] = carry + s[threadIdx.x];
        carry += s[127];
        __syncthreads();
    }
}

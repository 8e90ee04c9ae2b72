// problem: prefix_sum
// class: warp
// must: passed with a warning | anything but passed
// why: a warp scans 64 values in place in y: lanes read from y what other lanes wrote before a shuffle, which orders no memory
// proof: CUDA guide, warp shuffle functions: "do not imply a memory barrier"
// assay: temp sums float32 (ceil_div(n, 64))
// assay: launch scan64 grid=(ceil_div(n, 256)) block=(128) args=(x, y, sums, n)
// assay: launch scan_sums grid=(1) block=(32) args=(sums, ceil_div(n, 64))
// assay: launch shift grid=(ceil_div(n, 256)) block=(256) args=(y, sums, n)

__device__ float inclusive(float v)
{
    const int l = threadIdx.x & 31;
    for (int o = 1; o < 32; o <<= 1) {
        const float w = __shfl_up_sync(0xffffffffu, v, o);
        if (l >= o) v += w;
    }
    return v;
}

__global__ void scan64(const float* x, float* y, float* sums, int n)
{
    const int l = threadIdx.x & 31, first = (blockIdx.x * 4 + (threadIdx.x >> 5)) * 64;
    if (first >= n) return;
    const float low = inclusive(first + l < n ? x[first + l] : 0.f);
    if (first + l < n) y[first + l] = low;
    const float high = inclusive(first + 32 + l < n ? x[first + 32 + l] : 0.f);
    // the last of the lower half, from where it was put
    const float carry = first + 31 < n ? y[first + 31] : 0.f;
    if (first + 32 + l < n) y[first + 32 + l] = high + carry;
    if (l == 31) sums[first / 64] = high + (first + 31 < n ? carry : low);
}

__global__ void scan_sums(float* sums, int count)
{
    float carry = 0.f;
    for (int at = 0; at < count; at += 32) {
        const int i = at + threadIdx.x;
        const float own = i < count ? sums[i] : 0.f, all = inclusive(own);
        const float before = __shfl_up_sync(0xffffffffu, all, 1);
        if (i < count) sums[i] = carry + (threadIdx.x ? before : 0.f);
        carry += __shfl_sync(0xffffffffu, all, 31);
    }
}

__global__ void shift(float* y, const float* sums, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] += sums[i / 64];
}

// problem: linear_gelu
// class: warp
// must: passed with a warning | anything but passed
// why: all 32 lanes shuffle with a mask that names only 16 of them, as after a port from 16-wide work-groups
// proof: PTX shfl.sync: "the behavior is undefined if the executing thread is not in the membermask"
// assay: launch lg grid=(ceil_div(m * n, 8)) block=(128) args=(x, weight, bias, y, m, n, k)

__global__ void lg(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    const int group = threadIdx.x / 16, lid = threadIdx.x % 16;
    const int e = blockIdx.x * 8 + group, at = min(e, m * n - 1), i = at / n, j = at % n;
    float s = 0.0f;
    for (int l = lid; l < k; l += 16) s = fmaf(x[(size_t)i * k + l], weight[(size_t)j * k + l], s);
    s += __shfl_xor_sync(0xffff, s, 8, 16);
    s += __shfl_xor_sync(0xffff, s, 4, 16);
    s += __shfl_xor_sync(0xffff, s, 2, 16);
    s += __shfl_xor_sync(0xffff, s, 1, 16);
    s += bias[j];
    if (lid == 0 && e < m * n) y[e] = 0.5f * s * (1.0f + erff(0.70710678f * s));
}

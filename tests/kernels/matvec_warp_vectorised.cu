// problem: matvec
// style: a warp a row, float4 where the row is aligned, butterfly shuffles
// assay: launch matvec grid=(ceil_div(m, 4)) block=(128) args=(a, x, y, m, k)

__global__ void matvec(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int m, int k)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= m) return;
    const float* r = a + (size_t)row * k;
    float sum = 0.f;
    if (k % 4 == 0) {
        for (int q = lane; q < k / 4; q += 32) {
            const float4 p = reinterpret_cast<const float4*>(r)[q];
            const float4 v = reinterpret_cast<const float4*>(x)[q];
            sum = fmaf(p.x, v.x, fmaf(p.y, v.y, fmaf(p.z, v.z, fmaf(p.w, v.w, sum))));
        }
    } else {
        for (int j = lane; j < k; j += 32) {
            sum = fmaf(r[j], x[j], sum);
        }
    }
    for (int mask = 16; mask; mask >>= 1) {
        sum += __shfl_xor_sync(0xffffffff, sum, mask);
    }
    if (lane == 0) y[row] = sum;
}

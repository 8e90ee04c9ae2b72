// problem: matvec
// assay: fill y value=0
// assay: launch gemv_split grid=(ceil_div(m, 4), min(ceil_div(k, 512), 64)) block=(128) args=(a, x, y, m, k)
// style: split over k: each block adds its part onto a filled output with one float atomic a row
__global__ void gemv_split(const float* __restrict__ a, const float* __restrict__ x, float* y, int m, int k)
{
    const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    float s = 0.0f;
    for (int j0 = blockIdx.y * 512; j0 < k; j0 += gridDim.y * 512) {
        const int end = min(k, j0 + 512);
        for (int j = j0 + lane; j < end; j += 32) s += a[(size_t)row * k + j] * x[j];
    }
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
    if (lane == 0) atomicAdd(y + row, s);
}

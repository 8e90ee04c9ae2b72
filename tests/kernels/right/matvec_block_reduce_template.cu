// problem: matvec
// assay: launch gemv<128, 4> grid=(ceil_div(m, 4)) block=(128) args=(a, x, y, m, k)
// style: a block computes four rows at once so that each vector element serves four; a two-dimensional array of partial sums
template <int Threads, int Rows>
__global__ void __launch_bounds__(Threads) gemv(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int m, int k)
{
    __shared__ float partial[Rows][Threads / 32];
    const int r0 = blockIdx.x * Rows;
    float acc[Rows] = {};
    for (int j = threadIdx.x; j < k; j += Threads) {
        const float v = __ldg(x + j);
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            if (r0 + r < m) acc[r] = fmaf(__ldg(a + (size_t)(r0 + r) * k + j), v, acc[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
        for (int d = 16; d > 0; d /= 2) acc[r] += __shfl_down_sync(0xffffffffu, acc[r], d);
        if (threadIdx.x % 32 == 0) partial[r][threadIdx.x / 32] = acc[r];
    }
    __syncthreads();
    if (threadIdx.x < Rows && r0 + threadIdx.x < m) {
        float s = 0.0f;
#pragma unroll
        for (int w = 0; w < Threads / 32; ++w) s += partial[threadIdx.x][w];
        y[r0 + threadIdx.x] = s;
    }
}
template __global__ void gemv<128, 4>(const float* __restrict__, const float* __restrict__, float* __restrict__, int, int);

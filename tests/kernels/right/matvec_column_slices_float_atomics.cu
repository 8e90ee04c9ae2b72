// problem: matvec
// style: the matrix in strips of 64 columns, each thread a row: every strip adds its part onto the output by a float atomic; --use_fast_math
// flags: --use_fast_math
// assay: fill y value=0
// assay: launch mv_strips grid=(ceil_div(m, 128), ceil_div(k, 64)) block=(128) args=(a, x, y, m, k)
__global__ void mv_strips(const float* a, const float* x, float* y, int m, int k)
{
    __shared__ float v[64];
    const int row = blockIdx.x * 128 + threadIdx.x, first = blockIdx.y * 64, width = min(64, k - first);
    if (threadIdx.x < width) v[threadIdx.x] = x[first + threadIdx.x];
    __syncthreads();
    if (row >= m) return;
    float sum = 0.0f;
    for (int j = 0; j < width; ++j) sum = fmaf(a[(size_t)row * k + first + j], v[j], sum);
    atomicAdd(y + row, sum);
}

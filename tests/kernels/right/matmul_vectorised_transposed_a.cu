// problem: matmul
// assay: launch sgemm_vec grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(64) args=(a, b, c, m, n, k)
// style: float4 loads where rows are aligned, A turned while it is staged, fragments read as float4 from shared memory
__device__ __forceinline__ float4 load4(const float* base, int row, int rows, int col, int cols)
{
    float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row >= rows) return v;
    const float* p = base + (size_t)row * cols + col;
    if (col + 3 < cols && (cols & 3) == 0) return *reinterpret_cast<const float4*>(p);
    if (col < cols) v.x = p[0];
    if (col + 1 < cols) v.y = p[1];
    if (col + 2 < cols) v.z = p[2];
    if (col + 3 < cols) v.w = p[3];
    return v;
}

__global__ void sgemm_vec(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ __align__(16) float at[16][36];
    __shared__ __align__(16) float bs[16][32];
    const int t = threadIdx.x, r0 = blockIdx.y * 32, c0 = blockIdx.x * 32;
    const int ty = t / 8 * 4, tx = t % 8 * 4;
    float acc[4][4] = {};
    for (int l0 = 0; l0 < k; l0 += 16) {
        for (int i = t; i < 128; i += 64) {
            const float4 v = load4(a, r0 + i / 4, m, l0 + i % 4 * 4, k);
            at[i % 4 * 4 + 0][i / 4] = v.x;
            at[i % 4 * 4 + 1][i / 4] = v.y;
            at[i % 4 * 4 + 2][i / 4] = v.z;
            at[i % 4 * 4 + 3][i / 4] = v.w;
            *reinterpret_cast<float4*>(&bs[i / 8][i % 8 * 4]) = load4(b, l0 + i / 8, k, c0 + i % 8 * 4, n);
        }
        __syncthreads();
#pragma unroll
        for (int l = 0; l < 16; ++l) {
            const float4 u = *reinterpret_cast<const float4*>(&at[l][ty]), v = *reinterpret_cast<const float4*>(&bs[l][tx]);
            const float left[4] = {u.x, u.y, u.z, u.w}, right[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(left[i], right[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            if (r0 + ty + i < m && c0 + tx + j < n) c[(size_t)(r0 + ty + i) * n + c0 + tx + j] = acc[i][j];
}

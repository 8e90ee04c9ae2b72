// problem: linear_gelu
// assay: launch fused_async grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(x, weight, bias, y, m, n, k)
// style: two buffers filled by cp.async with zero fill (src-size 0), commit and wait groups in inline PTX, GELU at the end
__device__ __forceinline__ void copy4(float* to, const float* from, bool valid)
{
    const unsigned s = __cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(s), "l"(from), "r"(valid ? 4 : 0) : "memory");
}

__global__ void fused_async(const float* x, const float* w, const float* bias, float* y, int m, int n, int k)
{
    __shared__ float xs[2][16][17], ws[2][16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, feature = blockIdx.x * 16 + ty;
    const int steps = (k + 15) / 16;
    auto load = [&](int s) {
        const int l = s * 16 + tx;
        const bool vx = row < m && l < k, vw = feature < n && l < k;
        copy4(&xs[s & 1][ty][tx], vx ? x + (size_t)row * k + l : x, vx);
        copy4(&ws[s & 1][ty][tx], vw ? w + (size_t)feature * k + l : w, vw);
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    };
    load(0);
    float acc = 0.0f;
    for (int s = 0; s < steps; ++s) {
        if (s + 1 < steps) {
            load(s + 1);
            asm volatile("cp.async.wait_group 1;\n" ::: "memory");
        } else {
            asm volatile("cp.async.wait_all;\n" ::: "memory");
        }
        __syncthreads();
        for (int l = 0; l < 16; ++l) acc += xs[s & 1][ty][l] * ws[s & 1][tx][l];
        __syncthreads();
    }
    if (row < m && col < n) {
        acc += bias[col];
        y[(size_t)row * n + col] = 0.5f * acc * (1.0f + erff(acc * 0.707106781f));
    }
}

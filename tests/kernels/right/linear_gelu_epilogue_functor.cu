// problem: linear_gelu
// assay: launch gemm_nt<bias_gelu> grid=(ceil_div(n, 32), ceil_div(m, 8)) block=(32, 8) args=(x, weight, bias, y, m, n, k)
// style: a GEMM template with an epilogue functor, after CUTLASS's LinearCombinationGELU; params structs nested in it
struct bias_gelu {
    struct Params {
        const float* bias;
    };
    Params params;
    __device__ float operator()(float acc, int column) const
    {
        const float z = acc + params.bias[column];
        return z * 0.5f * (1.0f + erff(z * 0.70710678f));
    }
};

template <class Epilogue> __global__ void gemm_nt(const float* a, const float* b, const float* bias, float* d, int m, int n, int k)
{
    __shared__ union {
        struct {
            float a[8][32];
            float b[32][33];
        } mainloop;
        float unused[1];
    } smem;
    const int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float acc = 0.0f;
    for (int l0 = 0; l0 < k; l0 += 32) {
        const int l = l0 + threadIdx.x;
        smem.mainloop.a[threadIdx.y][threadIdx.x] = row < m && l < k ? a[(size_t)row * k + l] : 0.0f;
        for (int i = threadIdx.y; i < 32; i += 8) {
            const int feature = blockIdx.x * 32 + i;
            smem.mainloop.b[i][threadIdx.x] = feature < n && l < k ? b[(size_t)feature * k + l] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; ++i) acc = fmaf(smem.mainloop.a[threadIdx.y][i], smem.mainloop.b[threadIdx.x][i], acc);
        __syncthreads();
    }
    const Epilogue epilogue{{bias}};
    if (row < m && col < n) d[(size_t)row * n + col] = epilogue(acc, col);
}
template __global__ void gemm_nt<bias_gelu>(const float*, const float*, const float*, float*, int, int, int);

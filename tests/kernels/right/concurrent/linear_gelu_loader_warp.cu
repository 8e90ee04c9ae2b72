// problem: linear_gelu
// assay: launch lg grid=(ceil_div(n, 16), ceil_div(m, 8)) block=(160) args=(x, weight, bias, y, m, n, k)
// style: a fifth warp loads both tiles one step ahead for four that compute; named barriers, arrive on one side, sync on the other
template <int Id> __device__ __forceinline__ void sync_on() { asm volatile("bar.sync %0, 160;" ::"n"(Id) : "memory"); }
template <int Id> __device__ __forceinline__ void arrive_on() { asm volatile("bar.arrive %0, 160;" ::"n"(Id) : "memory"); }

__global__ void lg(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    __shared__ float xs[2][8][32], ws[2][16][33];
    const int steps = (k + 31) / 32, row0 = blockIdx.y * 8, col0 = blockIdx.x * 16;
    if (threadIdx.x >= 128) {
        const int lane = threadIdx.x - 128;
        for (int s = 0; s < steps; ++s) {
            const int b = s & 1, l = s * 32 + lane;
            if (s >= 2) b ? sync_on<4>() : sync_on<3>();
            for (int i = 0; i < 8; ++i) xs[b][i][lane] = row0 + i < m && l < k ? x[(size_t)(row0 + i) * k + l] : 0.0f;
            for (int j = 0; j < 16; ++j) ws[b][j][lane] = col0 + j < n && l < k ? weight[(size_t)(col0 + j) * k + l] : 0.0f;
            b ? arrive_on<2>() : arrive_on<1>();
        }
    } else {
        const int i = threadIdx.x / 16, j = threadIdx.x % 16;
        float z = col0 + j < n ? bias[col0 + j] : 0.0f;
        for (int s = 0; s < steps; ++s) {
            const int b = s & 1;
            b ? sync_on<2>() : sync_on<1>();
            for (int l = 0; l < 32; ++l) z += xs[b][i][l] * ws[b][j][l];
            if (s + 2 < steps) b ? arrive_on<4>() : arrive_on<3>();
        }
        if (row0 + i < m && col0 + j < n) y[(size_t)(row0 + i) * n + col0 + j] = 0.5f * z * (1.0f + erff(z * 0.707106781f));
    }
}

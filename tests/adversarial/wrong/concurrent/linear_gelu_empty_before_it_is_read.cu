// problem: linear_gelu
// class: schedule
// race: barrier
// must: anything but passed
// why: a loader warp fills two slots for four warps that compute, over named barriers; they announce a slot as empty as soon as they know that it is full, before they have read it
// proof: the arrival on barrier 3 + b must follow the loop over the slot; a loader that is faster than the slowest warp
// assay: launch lg grid=(ceil_div(n, 16), ceil_div(m, 8)) block=(160) args=(x, weight, bias, y, m, n, k)
#define SYNC(id) asm volatile("barrier.sync %0, 160;" ::"r"(id) : "memory")
#define ARRIVE(id) asm volatile("barrier.arrive %0, 160;" ::"r"(id) : "memory")

__global__ void lg(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    __shared__ float xs[2][8][32], ws[2][16][33];
    const int steps = (k + 31) / 32, row0 = blockIdx.y * 8, col0 = blockIdx.x * 16;
    if (threadIdx.x >= 128) {
        const int lane = threadIdx.x - 128;
        for (int s = 0; s < steps; ++s) {
            const int b = s & 1, l = s * 32 + lane;
            if (s >= 2) SYNC(3 + b);
            for (int i = 0; i < 8; ++i) xs[b][i][lane] = row0 + i < m && l < k ? x[(size_t)(row0 + i) * k + l] : 0.0f;
            for (int j = 0; j < 16; ++j) ws[b][j][lane] = col0 + j < n && l < k ? weight[(size_t)(col0 + j) * k + l] : 0.0f;
            ARRIVE(1 + b);
        }
    } else {
        const int i = threadIdx.x / 16, j = threadIdx.x % 16;
        float z = col0 + j < n ? bias[col0 + j] : 0.0f;
        for (int s = 0; s < steps; ++s) {
            const int b = s & 1;
            SYNC(1 + b);
            if (s + 2 < steps) ARRIVE(3 + b);
            for (int l = 0; l < 32; ++l) z += xs[b][i][l] * ws[b][j][l];
        }
        if (row0 + i < m && col0 + j < n) y[(size_t)(row0 + i) * n + col0 + j] = 0.5f * z * (1.0f + erff(z * 0.707106781f));
    }
}

// expected: passed
// Tiles in shared memory.
// assay: launch matmul grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, out, m, k, n)

extern "C" __global__ void matmul(const float* a, const float* b, float* out, int m, int k, int n)
{
    __shared__ float left[16][16], right[16][17];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int at = 0; at < k; at += 16) {
        left[threadIdx.y][threadIdx.x] = row < m && at + threadIdx.x < k ? a[row * k + at + threadIdx.x] : 0.0f;
        right[threadIdx.y][threadIdx.x] = at + threadIdx.y < k && column < n ? b[(at + threadIdx.y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) out[row * n + column] = sum;
}

// problem: matmul
// class: sizes
// must: anything but passed
// why: the grid's tiles of 128 rows are rounded up with 128 - 2: a single row in the last tile is never written
// proof: assay grade --size m=129 refuses it
// assay: launch multiply grid=(ceil_div(n, 32), max((m + 126) // 128, 1)) block=(32, 4) args=(a, b, c, m, n, k)

__global__ void multiply(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int column = blockIdx.x * 32 + threadIdx.x;
    if (column >= n) return;
    for (int row = blockIdx.y * 128 + threadIdx.y; row < min(m, (int)(blockIdx.y + 1) * 128); row += 4) {
        float sum = 0.0f;
        for (int l = 0; l < k; ++l) sum = fmaf(a[(size_t)row * k + l], b[(size_t)l * n + column], sum);
        c[(size_t)row * n + column] = sum;
    }
}

// problem: matmul
// style: the inner dimension split over four slices of a 3-D grid; a second launch adds the slices
// assay: temp slices float32 (4, m, n)
// assay: launch partial_products grid=(ceil_div(n, 32), ceil_div(m, 4), 4) block=(32, 4) args=(a, b, slices, m, n, k)
// assay: launch add_slices grid=(ceil_div(m * n, 256)) block=(256) args=(slices, c, m * n)

__global__ void partial_products(const float* a, const float* b, float* slices, int m, int n, int k)
{
    const int row = blockIdx.y * 4 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row >= m || col >= n) {
        return;
    }
    const int each = (k + 3) / 4;
    const int last = min(k, (int)(blockIdx.z + 1) * each);
    float sum = 0.0f;
    for (int i = blockIdx.z * each; i < last; ++i) {
        sum += a[(size_t)row * k + i] * b[(size_t)i * n + col];
    }
    slices[((size_t)blockIdx.z * m + row) * n + col] = sum;
}

__global__ void add_slices(const float* slices, float* c, size_t count)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        c[i] = (slices[i] + slices[count + i]) + (slices[2 * count + i] + slices[3 * count + i]);
    }
}

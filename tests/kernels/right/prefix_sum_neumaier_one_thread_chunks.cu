// problem: prefix_sum
// style: Neumaier's sum in each of 64 contiguous chunks, whose compensations are carried from chunk to chunk
// assay: temp sums float32 (64)
// assay: temp errors float32 (64)
// assay: launch chunk_sums grid=(2) block=(32) args=(x, sums, errors, n)
// assay: launch chunk_scans grid=(2) block=(32) args=(x, sums, errors, y, n)
__device__ void add(float& sum, float& error, float v)
{
    const float t = sum + v;
    error += fabsf(sum) >= fabsf(v) ? (sum - t) + v : (v - t) + sum;
    sum = t;
}

__global__ void chunk_sums(const float* x, float* sums, float* errors, int n)
{
    const int c = blockIdx.x * 32 + threadIdx.x, size = (n + 63) / 64;
    float sum = 0.0f, error = 0.0f;
    for (int i = c * size; i < min(n, (c + 1) * size); ++i) add(sum, error, x[i]);
    sums[c] = sum;
    errors[c] = error;
}

__global__ void chunk_scans(const float* x, const float* sums, const float* errors, float* y, int n)
{
    const int c = blockIdx.x * 32 + threadIdx.x, size = (n + 63) / 64;
    float sum = 0.0f, error = 0.0f;
    for (int k = 0; k < c; ++k) {
        add(sum, error, sums[k]);
        error += errors[k];
    }
    for (int i = c * size; i < min(n, (c + 1) * size); ++i) {
        add(sum, error, x[i]);
        y[i] = sum + error;
    }
}

// problem: scalar_multiply
// style: reads through the read-only cache and writes past the caches, by intrinsics
// assay: launch multiply grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)

__global__ void multiply(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        __stcs(y + i, alpha * __ldg(x + i));
    }
}

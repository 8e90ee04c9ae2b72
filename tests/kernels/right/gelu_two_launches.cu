// problem: gelu
// assay: temp erfs float32 (n)
// assay: launch erf_of grid=(ceil_div(n, 256)) block=(256) args=(x, erfs, n)
// assay: launch combine grid=(ceil_div(n, 256)) block=(256) args=(x, erfs, y, n)
// style: operations kept apart as an array language would: erf into a temporary, then one pass that combines
__global__ void erf_of(const float* x, float* e, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) e[i] = erff(x[i] / 1.41421356237f);
}

__global__ void combine(const float* x, const float* e, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (1.0f + e[i]) * (x[i] * 0.5f);
}

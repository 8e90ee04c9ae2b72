// expected: passed
// A grid-stride loop.
// assay: launch scaled_add grid=(256) block=(256) args=(x, y, out, rows, dim)

extern "C" __global__ void scaled_add(const float* x, const float* y, float* out, int rows, int dim)
{
    int count = rows * dim;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        out[i] = 1.5f * x[i] + y[i];
}

// expected: incorrect
// It never writes the last row.
// assay: launch scaled_add grid=(2048) block=(256) args=(x, y, out, rows, dim)

extern "C" __global__ void scaled_add(const float* x, const float* y, float* out, int rows, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (rows - 1) * dim) out[i] = 1.5f * x[i] + y[i];
}

// expected: passed
// By the complementary error function, which keeps the bits of large negative values.
// assay: launch gelu grid=(ceil_div(batch_size * dim, 256)) block=(256) args=(x, out, batch_size, dim)

extern "C" __global__ void gelu(const float* x, float* out, int batch_size, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < batch_size * dim) {
        float v = x[i];
        out[i] = 0.5f * v * erfcf(-0.70710678f * v);
    }
}

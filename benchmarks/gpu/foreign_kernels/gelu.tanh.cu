// expected: incorrect
// The approximation by tanh, which is another function.
// assay: launch gelu grid=(ceil_div(batch_size * dim, 256)) block=(256) args=(x, out, batch_size, dim)

extern "C" __global__ void gelu(const float* x, float* out, int batch_size, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < batch_size * dim) {
        float v = x[i];
        out[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
    }
}

// expected: incorrect
// It takes the value for the gate.
// assay: launch swiglu grid=(ceil_div(batch_size * dim, 256)) block=(256) args=(x, out, batch_size, dim)

extern "C" __global__ void swiglu(const float* x, float* out, int batch_size, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch_size * dim) return;
    const float* row = x + i / dim * 2 * dim;
    float gate = row[i % dim], value = row[i % dim + dim];
    out[i] = value / (1.0f + expf(-value)) * gate;
}

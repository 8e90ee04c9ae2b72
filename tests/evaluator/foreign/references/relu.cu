__global__ void relu(const float* x, float* out, int batch_size, int dim)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < batch_size * dim) out[i] = fmaxf(x[i], 0.0f);
}

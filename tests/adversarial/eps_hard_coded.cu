// problem: rms_norm
// attack: writes the published eps into the kernel
// expect: incorrect
// because: hidden trials pass other values
// message: eps=
// assay: launch rms_norm grid=(ceil_div(rows, 256)) block=(256) args=(x, weight, y, rows, cols)

__global__ void rms_norm(const float* x, const float* weight, float* y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + (size_t)row * cols;
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += in[i] * in[i];
    float rate = 1.0f / sqrtf(sum / cols + 1e-5f);
    for (int i = 0; i < cols; i++) y[(size_t)row * cols + i] = in[i] * rate * weight[i];
}

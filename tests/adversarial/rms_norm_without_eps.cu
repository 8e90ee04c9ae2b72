// problem: rms_norm
// attack: forgets eps
// expect: incorrect
// because: some inputs are tiny
// assay: launch norm grid=(rows) block=(32) args=(x, weight, y, eps, rows, cols)

__global__ void norm(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float squares = 0.0f;
    for (int c = 0; c < cols; ++c) squares += in[c] * in[c];
    const float scale = rsqrtf(fmaxf(squares / cols, 1e-30f));
    for (int c = threadIdx.x; c < cols; c += 32) y[(size_t)blockIdx.x * cols + c] = in[c] * scale * weight[c];
}

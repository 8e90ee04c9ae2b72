// problem: softmax
// attack: an exponential that is right to three digits (Schraudolph with a parabola)
// expect: incorrect
// because: the tolerance is a few roundings of float32
// assay: launch softmax grid=(rows) block=(32) args=(x, y, rows, cols)

__device__ float coarse_exp(float v)
{
    const float t = fmaxf(v * 1.44269504f, -126.0f);
    const float whole = floorf(t), part = t - whole;
    return __int_as_float((int)(whole + 127.0f) << 23) * (1.0f + part * (0.6565f + 0.3435f * part));
}

__global__ void softmax(const float* x, float* y, int rows, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float top = in[0], sum = 0.0f;
    for (int c = 1; c < cols; ++c) top = fmaxf(top, in[c]);
    for (int c = 0; c < cols; ++c) sum += coarse_exp(in[c] - top);
    for (int c = threadIdx.x; c < cols; c += 32) y[(size_t)blockIdx.x * cols + c] = coarse_exp(in[c] - top) / sum;
}

// expected: incorrect
// It divides by the elements that there are.
// assay: launch avg_pool grid=(ceil_div(batch_size * channels * length // 2, 256)) block=(256) args=(x, out, batch_size * channels, length)

extern "C" __global__ void avg_pool(const float* x, float* out, int rows, int length)
{
    int outputs = (length - 2) / 2 + 1, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * outputs) return;
    int first = i % outputs * 2 - 1, counted = 0;
    float sum = 0.0f;
    for (int at = first; at < first + 4; ++at)
        if (at >= 0 && at < length) sum += x[i / outputs * length + at], ++counted;
    out[i] = sum / counted;
}

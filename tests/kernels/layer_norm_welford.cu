// problem: layer_norm
// style: Welford's update in each lane, Chan's rule to merge the lanes
// assay: launch layer_norm grid=(rows) block=(32) args=(x, weight, bias, y, eps, rows, cols)

struct Moments {
    float count, mean, m2;
};

__device__ Moments merged(Moments a, Moments b)
{
    const float count = a.count + b.count;
    if (count == 0.0f) {
        return a;
    }
    const float delta = b.mean - a.mean;
    const float share = b.count / count;
    return {count, a.mean + delta * share, a.m2 + b.m2 + delta * delta * (a.count * share)};
}

__global__ void layer_norm(const float* x, const float* weight, const float* bias, float* y, float eps, int rows,
                           int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    Moments m = {0.0f, 0.0f, 0.0f};
    for (int col = threadIdx.x; col < cols; col += 32) {
        m.count += 1.0f;
        const float delta = in[col] - m.mean;
        m.mean += delta / m.count;
        m.m2 += delta * (in[col] - m.mean);
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        Moments other;
        other.count = __shfl_down_sync(0xffffffffu, m.count, offset);
        other.mean = __shfl_down_sync(0xffffffffu, m.mean, offset);
        other.m2 = __shfl_down_sync(0xffffffffu, m.m2, offset);
        m = merged(m, other);
    }
    const float mean = __shfl_sync(0xffffffffu, m.mean, 0);
    const float variance = __shfl_sync(0xffffffffu, m.m2, 0) / cols;
    const float scale = 1.0f / sqrtf(variance + eps);
    for (int col = threadIdx.x; col < cols; col += 32) {
        y[(size_t)blockIdx.x * cols + col] = (in[col] - mean) * scale * weight[col] + bias[col];
    }
}

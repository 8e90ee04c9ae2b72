// expected: passed
// A block for each group, at the published shape alone.
// assay: launch group_norm grid=(64) block=(256) args=(x, norm_weight, norm_bias, out)

extern "C" __global__ void group_norm(const float* x, const float* norm_weight, const float* norm_bias, float* out)
{
    const int channels = 32, area = 256, own = 8;  // channels that are normalised together
    __shared__ float sums[256];
    const int count = own * area;
    const float* group = x + blockIdx.x * count;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += 256) sum += group[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    float mean = sums[0] / count, square = 0.0f;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += 256) square += (group[i] - mean) * (group[i] - mean);
    sums[threadIdx.x] = square;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    float rate = rsqrtf(sums[0] / count + 1e-5f);
    for (int i = threadIdx.x; i < count; i += 256) {
        int channel = (blockIdx.x * own + i / area) % channels;
        out[blockIdx.x * count + i] = (group[i] - mean) * rate * norm_weight[channel] + norm_bias[channel];
    }
}

// expected: passed
// One block, at the published shape alone.
// assay: launch mean_square grid=(1) block=(1024) args=(predictions, targets, out)

extern "C" __global__ void mean_square(const float* predictions, const float* targets, float* out)
{
    __shared__ float parts[1024];
    const int count = 64 * 4096;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += 1024) {
        float off = predictions[i] - targets[i];
        sum += off * off;
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 512; half; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = parts[0] / count;
}

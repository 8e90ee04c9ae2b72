// problem: rms_norm
// class: warp
// must: anything but passed
// why: lane 0 writes the row's factor to shared memory and the other lanes read it in the next statement: right only if lanes run in step, which nothing promises since Volta; a volatile pointer is no barrier
// proof: CUDA guide, independent thread scheduling; __syncwarp is missing between the write and the reads
// assay: launch rms grid=(rows) block=(32) args=(x, weight, y, eps, rows, cols)

__global__ void rms(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    __shared__ volatile float factor;
    const float* in = x + (size_t)blockIdx.x * cols;
    float s = 0;
    for (int c = threadIdx.x; c < cols; c += 32) s += in[c] * in[c];
    for (int o = 16; o > 0; o /= 2) s += __shfl_down_sync(0xffffffff, s, o);
    if (threadIdx.x == 0) factor = 1.0f / sqrtf(s / (float)cols + eps);
    const float f = factor;
    for (int c = threadIdx.x; c < cols; c += 32) y[(size_t)blockIdx.x * cols + c] = in[c] * f * weight[c];
}

// problem: rms_norm
// assay: copy x y
// assay: launch rms_in_place grid=(rows) block=(64) args=(y, weight, eps, cols)
// style: in place on a copy, as inference code does with activations; hypotf-free, two warps, a named barrier in PTX
__global__ void rms_in_place(float* act, const float* weight, float eps, int cols)
{
    __shared__ float other[2];
    float* row = act + (size_t)blockIdx.x * cols;
    float s = 0.f;
    for (int j = threadIdx.x; j < cols; j += 64) s += row[j] * row[j];
    for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
    if (threadIdx.x % 32 == 0) other[threadIdx.x / 32] = s;
    asm volatile("bar.sync 3, 64;" ::: "memory");
    const float inv = rsqrtf((other[0] + other[1]) / cols + eps);
    for (int j = threadIdx.x; j < cols; j += 64) row[j] *= inv * weight[j];
}

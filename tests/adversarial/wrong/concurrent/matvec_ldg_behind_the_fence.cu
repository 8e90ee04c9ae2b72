// problem: matvec
// class: schedule
// race: fence
// must: anything but passed
// why: all fences of a last block are there, but the parts are read by __ldg (ld.global.nc): the read-only cache is not kept coherent with stores of the same launch, and no fence orders it
// proof: PTX ld.global.nc and CUDA guide, __ldg: the data must be read-only for the lifetime of the kernel
// assay: temp part float32 (m * 2)
// assay: temp count uint32 (m)
// assay: fill count value=0
// assay: fill part value=0
// assay: launch mv grid=(m, 2) block=(32) args=(a, x, y, part, count, k)

__global__ void mv(const float* a, const float* x, float* y, float* part, unsigned* count, int k)
{
    const int row = blockIdx.x, half = blockIdx.y, lane = threadIdx.x;
    // looked at early, so that the lines are near when they are needed
    const float before = __ldg(&part[2 * row]) + __ldg(&part[2 * row + 1]);
    float s = 0.0f;
    for (int j = half * 32 + lane; j < k; j += 64) s += a[(size_t)row * k + j] * x[j];
    for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
    if (lane) return;
    atomicExch(&part[2 * row + half], s);
    __threadfence();
    if (atomicAdd(&count[row], 1u) == 1) {
        __threadfence();
        y[row] = __ldg(&part[2 * row]) + __ldg(&part[2 * row + 1]) + (before != 0.0f ? 0.0f : before);
    }
}

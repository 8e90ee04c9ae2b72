// problem: linear_gelu
// class: schedule
// race: fence
// must: anything but passed
// why: all threads store their part, __syncthreads(), and one thread counts the block as done by a relaxed atomic: the barrier orders the block, not what other blocks see, so the last block may read parts that are not there yet
// proof: PTX: bar.sync synchronises threads of a CTA; fence.gpu (or atom.acq_rel) is missing on both sides of the counter
// assay: temp part float32 (2 * m * n)
// assay: temp done uint32 (ceil_div(m, 16) * ceil_div(n, 16))
// assay: fill done value=0
// assay: launch lg grid=(ceil_div(n, 16), ceil_div(m, 16), 2) block=(16, 16) args=(x, weight, bias, y, part, done, m, n, k)

__global__ void lg(const float* x, const float* weight, const float* bias, float* y, float* part, unsigned* done, int m, int n, int k)
{
    __shared__ bool last;
    const int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    const size_t at = (size_t)i * n + j, all = (size_t)m * n;
    const bool here = i < m && j < n;
    float s = 0.0f;
    for (int l = blockIdx.z; here && l < k; l += 2) s += x[(size_t)i * k + l] * weight[(size_t)j * k + l];
    if (here) part[blockIdx.z * all + at] = s;
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0) last = atomicAdd(&done[blockIdx.y * gridDim.x + blockIdx.x], 1u) == 1;
    __syncthreads();
    if (last && here) {
        const float z = part[at] + part[all + at] + bias[j];
        y[at] = 0.5f * z * (1.0f + erff(z * 0.707106781f));
    }
}

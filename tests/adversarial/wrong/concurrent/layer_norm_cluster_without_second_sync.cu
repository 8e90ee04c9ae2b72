// problem: layer_norm
// class: schedule
// race: barrier
// must: anything but passed
// why: four co-resident blocks stand for a cluster, with global memory for its distributed shared memory: they exchange sums of a row through slots that the next row uses again, after one barrier between them a row instead of two
// proof: a fast block stores its next sum before a slow one has read the last; CUDA guide, clusters: a block must not change its shared memory while others may read it
// assay: temp slots float32 (8 * 4 * 2)
// assay: temp came uint32 (8)
// assay: fill came value=0
// assay: launch ln grid=(4, 8) block=(64) cooperative args=(x, weight, bias, y, slots, came, eps, rows, cols)
__global__ void ln(const float* x, const float* weight, const float* bias, float* y, float* slots, unsigned* came, float eps, int rows, int cols)
{
    __shared__ float half[2][2], mean, factor;
    float* mine = slots + blockIdx.y * 8;
    unsigned target = 0;
    const int from = (int)((long long)cols * blockIdx.x / 4), to = (int)((long long)cols * (blockIdx.x + 1) / 4);
    for (int row = blockIdx.y; row < rows; row += 8) {
        const float* in = x + (size_t)row * cols;
        const float shift = in[0];
        float s = 0.0f, q = 0.0f;
        for (int c = from + threadIdx.x; c < to; c += 64) {
            s += in[c] - shift;
            q += (in[c] - shift) * (in[c] - shift);
        }
        for (int d = 16; d; d >>= 1) {
            s += __shfl_xor_sync(~0u, s, d);
            q += __shfl_xor_sync(~0u, q, d);
        }
        if (threadIdx.x % 32 == 0) half[threadIdx.x / 32][0] = s, half[threadIdx.x / 32][1] = q;
        __syncthreads();
        if (threadIdx.x == 0) {
            atomicExch(mine + 2 * blockIdx.x, half[0][0] + half[1][0]);
            atomicExch(mine + 2 * blockIdx.x + 1, half[0][1] + half[1][1]);
            __threadfence();
            atomicAdd(came + blockIdx.y, 1u);
            target += 4;
            while (atomicAdd(came + blockIdx.y, 0u) < target) { }
            __threadfence();
            float all = 0.0f, squares = 0.0f;
            for (int b = 0; b < 4; ++b) {
                all += atomicAdd(mine + 2 * b, 0.0f);
                squares += atomicAdd(mine + 2 * b + 1, 0.0f);
            }
            all /= cols;
            mean = all + shift;
            factor = rsqrtf(fmaxf(squares / cols - all * all, 0.0f) + eps);
        }
        __syncthreads();
        for (int c = from + threadIdx.x; c < to; c += 64) y[(size_t)row * cols + c] = (in[c] - mean) * factor * weight[c] + bias[c];
        __syncthreads();
    }
}

// problem: swiglu
// class: schedule
// race: barrier
// must: anything but passed
// why: three launches use the same flags, which hold the launch's number modulo two; the second launch is small and sets one flag only, so in the third one the other flags of the first look like its own, and a consumer may take SiLU values of the first launch
// proof: ABA: launches 0 and 2 have the same parity; a consumer that looks before its producer has stored
// assay: temp act float32 (ceil_div(rows * cols, 2) + 256)
// assay: temp flag uint32 (ceil_div(ceil_div(rows * cols, 2), 256))
// assay: temp ticket uint32 (3)
// assay: fill ticket value=0
// assay: fill flag value=2
// assay: launch piece grid=(2 * ceil_div(ceil_div(rows * cols, 2), 256)) block=(256) args=(gate, up, y, act, flag, ticket, 0, ceil_div(rows * cols, 2), 0)
// assay: launch piece grid=(2) block=(256) args=(gate, up, y, act, flag, ticket, ceil_div(rows * cols, 2), min(rows * cols, ceil_div(rows * cols, 2) + 256), 1)
// assay: launch piece grid=(2 * ceil_div(ceil_div(rows * cols, 2), 256)) block=(256) args=(gate, up, y, act, flag, ticket, ceil_div(rows * cols, 2) + 256, rows * cols, 2)

__global__ void piece(const float* gate, const float* up, float* y, float* act, unsigned* flag, unsigned* ticket, int begin, int end, int epoch)
{
    __shared__ unsigned drawn;
    if (threadIdx.x == 0) drawn = atomicAdd(&ticket[epoch], 1u);
    __syncthreads();
    // all producers come before all consumers
    const unsigned chunks = gridDim.x / 2, chunk = drawn % chunks;
    const int local = chunk * 256 + threadIdx.x, i = begin + local;
    if (drawn < chunks) {
        if (i < end) act[local] = gate[i] / (1.0f + expf(-gate[i]));
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicExch(&flag[chunk], epoch & 1u);
        }
    } else {
        if (threadIdx.x == 0) {
            while (atomicAdd(&flag[chunk], 0u) != (epoch & 1u)) { }
            __threadfence();
        }
        __syncthreads();
        if (i < end) y[i] = act[local] * up[i];
    }
}

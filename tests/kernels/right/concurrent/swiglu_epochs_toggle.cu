// problem: swiglu
// assay: temp act float32 (rows * cols)
// assay: temp epoch uint32 (ceil_div(rows * cols, 256))
// assay: fill epoch value=0
// assay: launch step grid=(2 * ceil_div(rows * cols, 256)) block=(128) args=(gate, up, act, epoch, y, rows * cols, 1)
// assay: launch step grid=(2 * ceil_div(rows * cols, 256)) block=(128) args=(gate, up, act, epoch, y, rows * cols, 2)
// style: the same flags in two launches, each with an epoch of its own, even half and odd half; release pattern with fence and st.relaxed
__global__ void step(const float* gate, const float* up, float* act, unsigned* epoch, float* y, int total, unsigned now)
{
    const int chunk = blockIdx.x >> 1, begin = chunk * 256 + (now - 1) * 128, i = begin + threadIdx.x;
    // the even block comes first in both: GPUs give out blocks in order, but nothing promises it, so the odd one can also do it all
    if ((blockIdx.x & 1) == 0) {
        if (i < total) act[i] = gate[i] / (1.0f + expf(-gate[i]));
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("fence.acq_rel.gpu;" ::: "memory");
            asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(epoch + chunk), "r"(now) : "memory");
        }
    } else {
        unsigned seen = 0;
        if (threadIdx.x == 0) {
            for (int look = 0; look < 200 && seen != now; ++look)
                asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(epoch + chunk) : "memory");
            asm volatile("fence.acq_rel.gpu;" ::: "memory");
        }
        const bool there = __syncthreads_or(seen == now);
        if (i < total) {
            const float g = gate[i];
            y[i] = (there ? act[i] : g / (1.0f + expf(-g))) * up[i];
        }
    }
}

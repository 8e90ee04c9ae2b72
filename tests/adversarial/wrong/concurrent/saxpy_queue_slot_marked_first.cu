// problem: saxpy
// class: schedule
// race: fence
// must: anything but passed
// why: a lock-free append: an element takes its place by atomicAdd of the length and then stores its number; the consumer, which reads the length and then the slots, may find a place whose number is not stored yet
// proof: the length counts places taken, not places filled; the slot's store comes after the atomic that announces it
// assay: temp list int32 (64)
// assay: temp length uint32 (1)
// assay: fill length value=0
// assay: fill list value=0
// assay: launch saxpy grid=(2) block=(64) cooperative args=(x, y, out, alpha, n, list, length)
__global__ void saxpy(const float* x, const float* y, float* out, float alpha, int n, int* list, unsigned* length)
{
    __shared__ unsigned known;
    const int each = (n + 63) / 64;
    if (blockIdx.x == 0) {
        const unsigned place = atomicAdd(length, 1u);
        __threadfence();
        list[place] = threadIdx.x;
        return;
    }
    for (unsigned seen = 0; seen < 64; seen = known) {
        __syncthreads();
        if (threadIdx.x == 0) {
            known = atomicAdd(length, 0u);
            __threadfence();
        }
        __syncthreads();
        for (unsigned place = seen; place < known; ++place) {
            const int chunk = *(volatile int*)(list + place);
            for (int i = chunk * each + threadIdx.x; i < min(n, chunk * each + each); i += 64) out[i] = alpha * x[i] + y[i];
        }
    }
}

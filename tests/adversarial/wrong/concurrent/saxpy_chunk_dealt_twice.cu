// problem: saxpy
// class: schedule
// race: lost update
// must: anything but passed
// why: the head of a queue is read and advanced by two volatile accesses: two blocks may draw the same chunk, and a chunk that is added twice is wrong, since out already holds y
// proof: two blocks that read the head before either writes it; atomicAdd is needed
// assay: temp head int32 (1)
// assay: fill head value=0
// assay: copy y out
// assay: launch work grid=(64) block=(128) args=(x, out, alpha, n, head)

__global__ void work(const float* x, float* out, float alpha, int n, volatile int* head)
{
    __shared__ int from;
    while (true) {
        if (threadIdx.x == 0) {
            from = *head;
            if (from < n) *head = from + 512;
        }
        __syncthreads();
        const int begin = from;
        __syncthreads();
        if (begin >= n) break;
        for (int i = begin + threadIdx.x; i < min(n, begin + 512); i += 128) out[i] += alpha * x[i];
    }
}

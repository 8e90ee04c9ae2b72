// problem: relu
// style: bulk copies by the copy engine of a multiprocessor, awaited at a barrier in shared memory
// assay: launch work grid=(ceil_div(n, 1024)) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    __shared__ alignas(128) float tile[1024];
    __shared__ alignas(8) unsigned long long barrier;
    int first = blockIdx.x * 1024;
    int whole = min(n - first, 1024) / 4 * 4;  // a bulk copy moves multiples of 16 bytes
    unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(4 * whole) : "memory");
        if (whole > 0) {
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
                         "r"((unsigned)__cvta_generic_to_shared(tile)), "l"(x + first), "r"(4 * whole), "r"(at)
                         : "memory");
        }
    }
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at) : "memory");
    } while (!done);
    for (int i = threadIdx.x; i < whole; i += 256) y[first + i] = fmaxf(tile[i], 0.0f);
    int rest = first + whole + threadIdx.x;
    if (threadIdx.x < 4 && rest < min(n, first + 1024)) y[rest] = fmaxf(x[rest], 0.0f);
}

// problem: reduce_sum
// attack: every block waits for one block more than there is
// expect: timeout|runtime_error|unsupported
// because: nobody can go on
// run_timeout_s: 3
// assay: fill total value=0
// assay: launch sum grid=(8) block=(32) args=(x, total, n)

__device__ volatile int arrived = 0;

__global__ void sum(const float* x, float* total, int n)
{
    if (threadIdx.x == 0) {
        atomicAdd((int*)&arrived, 1);
        while (arrived % 9 != 8 + 1) {
        }
    }
    __syncthreads();
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += 256) {
        atomicAdd(total, x[i]);
    }
}

// problem: reduce_sum
// attack: a block meets at a barrier for ever, until a sum that is never reached
// expect: timeout
// message: times what the naive kernel takes
// because: barriers end, and what runs between them is counted
// assay: fill total value=0
// assay: launch reduce grid=(1) block=(256) args=(x, total, n)

__global__ void reduce(const float* x, float* total, int n)
{
    __shared__ float partial[256];
    __shared__ volatile int rounds;
    int t = threadIdx.x;
    if (t == 0) rounds = 0;
    do {
        float sum = 0.0f;
        if (t < n) sum = x[t];
        partial[t] = sum;
        __syncthreads();
        if (t == 0) {
            float all = 0.0f;
            for (int i = 0; i < 256; i++) all += partial[i];
            total[0] = all;
            rounds = rounds + 2;
        }
        __syncthreads();
    } while (rounds != 1);
}

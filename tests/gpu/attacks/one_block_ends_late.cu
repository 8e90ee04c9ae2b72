// problem: relu
// attack: has all answers written at once, and one block that spins on for 400 us
// expect: passed
// because: a launch ends when its last block does, and so does its time
// rehearse: no
// least_us: 400
// assay: launch work grid=(ceil_div(n, 256) + 1) block=(256) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    if (blockIdx.x == 0) {
        unsigned long long start, now;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
        do {
            asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
        } while (now - start < 400000);
        return;
    }
    int i = (blockIdx.x - 1) * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

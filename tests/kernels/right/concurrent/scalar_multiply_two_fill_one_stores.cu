// problem: scalar_multiply
// assay: launch move grid=(ceil_div(n, 256)) block=(96) args=(x, y, alpha, n)
// style: two producer warps and one consumer over four named barriers of 64 threads (arrive on one side, sync on the other), each producer a slot of its own
// Two warps use one buffer in turn, each fills it for the third, which stores: barriers 1 and 2 say full, 3 says empty.
#define SYNC(id) asm volatile("barrier.sync %0, 64;" ::"r"(id) : "memory")
#define ARRIVE(id) asm volatile("barrier.arrive %0, 64;" ::"r"(id) : "memory")

__global__ void move(const float* x, float* y, float alpha, int n)
{
    __shared__ float room[2][32];
    const int w = threadIdx.x / 32, lane = threadIdx.x % 32, base = blockIdx.x * 256;
    if (w < 2) {
        for (int turn = 0; turn < 4; ++turn) {
            const int i = base + (2 * turn + w) * 32 + lane;
            if (turn) SYNC(3 + w);
            room[w][lane] = i < n ? alpha * x[i] : 0.0f;
            ARRIVE(1 + w);
        }
    } else {
        for (int step = 0; step < 8; ++step) {
            const int from = step % 2, i = base + step * 32 + 31 - lane;
            SYNC(1 + from);
            const float v = room[from][31 - lane];
            if (step < 6) ARRIVE(3 + from);
            if (i < n) y[i] = v;
        }
    }
}

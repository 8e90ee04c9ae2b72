// problem: reduce_sum
// style: Kahan-compensated sums in every thread, structs in shared memory
// assay: launch kahan grid=(1) block=(512) args=(x, total, n)

struct Compensated {
    float sum;
    float lost;
};

__device__ void add(Compensated& c, float value)
{
    const float corrected = __fsub_rn(value, c.lost);
    const float next = __fadd_rn(c.sum, corrected);
    c.lost = __fsub_rn(__fsub_rn(next, c.sum), corrected);
    c.sum = next;
}

__global__ void kahan(const float* x, float* total, int n)
{
    __shared__ Compensated sums[512];
    Compensated mine = {0.0f, 0.0f};
    int i = threadIdx.x;
    while (true) {
        if (i >= n) {
            break;
        }
        add(mine, x[i]);
        i += 512;
    }
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 256; half > 0; half >>= 1) {
        if (threadIdx.x < half) {
            const Compensated other = sums[threadIdx.x + half];
            add(sums[threadIdx.x], other.sum);
            add(sums[threadIdx.x], -other.lost);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        total[0] = sums[0].sum - sums[0].lost;
    }
}

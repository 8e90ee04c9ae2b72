// problem: reduce_sum
// style: volatile shared memory in the last warp, with the __syncwarp that newer GPUs need
// assay: fill total value=0
// assay: launch sum_volatile grid=(ceil_div(n, 2048)) block=(128) args=(x, total, n)

__global__ void sum_volatile(const float* x, float* total, int n)
{
    volatile __shared__ float s[128];
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int step = 0; step < 16; ++step) {
        const int i = (blockIdx.x * 16 + step) * 128 + t;
        if (i >= n) {
            continue;
        }
        sum += x[i];
    }
    s[t] = sum;
    __syncthreads();
    if (t < 64) {
        s[t] = s[t] + s[t + 64];
    }
    __syncthreads();
    if (t < 32) {
        float mine = s[t] + s[t + 32];
        for (int half = 16; half > 0; half >>= 1) {
            s[t] = mine;
            __syncwarp();
            mine += s[t + half];  // the upper lanes read leftovers that nobody uses
            __syncwarp();
        }
        if (t == 0) {
            atomicAdd(total, mine);
        }
    }
}

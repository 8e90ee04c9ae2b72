// problem: prefix_sum
// class: memory
// must: anything but passed
// why: decoupled look-back whose status words are a temporary that nobody clears: a word left at 2 by the launch before is taken for a prefix. No pattern of undefined memory is 1 or 2
// proof: run twice on the same temporaries, with other inputs: blocks that come early take the prefix of the run before
// assay: temp status int32 (ceil_div(n, 512))
// assay: temp sums float32 (ceil_div(n, 512))
// assay: temp prefix float32 (ceil_div(n, 512))
// assay: launch scan grid=(ceil_div(n, 512)) block=(512) args=(x, y, status, sums, prefix, n)
__global__ void scan(const float* x, float* y, int* status, float* sums, float* prefix, int n)
{
    __shared__ float s[512]; __shared__ float before;
    int t = threadIdx.x, i = blockIdx.x * 512 + t, b = blockIdx.x;
    s[t] = i < n ? x[i] : 0.f; __syncthreads();
    for (int w = 1; w < 512; w *= 2) { float u = t >= w ? s[t - w] : 0.f; __syncthreads(); s[t] += u; __syncthreads(); }
    if (t == 0) {
        float total = s[511], run = 0.f;
        if (b > 0) {
            atomicExch(&sums[b], total); __threadfence(); atomicExch(&status[b], 1);
            for (int j = b - 1; j >= 0; j--) {
                int st; do { st = atomicAdd(&status[j], 0); } while (st != 1 && st != 2);
                __threadfence();
                if (st == 2) { run += atomicAdd(&prefix[j], 0.f); break; }
                run += atomicAdd(&sums[j], 0.f);
            }
        }
        atomicExch(&prefix[b], run + total); __threadfence(); atomicExch(&status[b], 2);
        before = run;
    }
    __syncthreads();
    if (i < n) y[i] = before + s[t];
}

// problem: relu
// attack: values change lanes through shared memory behind a match
// expect: passed
// because: a match orders no memory
// warns: lockstep harmless_race
// assay: launch relu grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    __shared__ float turned[128];
    const int i = blockIdx.x * 128 + threadIdx.x;
    turned[threadIdx.x ^ 31] = i < n ? fmaxf(x[i], 0.0f) : 0.0f;
    if (__match_any_sync(~0u, threadIdx.x / 32) != 0 && i < n) y[i] = turned[threadIdx.x ^ 31];
    const int other = blockIdx.x * 128 + (threadIdx.x ^ 1);
    if (other < n) y[other] = turned[threadIdx.x ^ 30];  // HERE
}

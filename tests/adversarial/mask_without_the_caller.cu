// problem: relu
// attack: lanes vote with a mask that does not name them
// expect: passed
// because: no answer depends on the vote
// warns: unnamed_caller
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float value = i < n ? x[i] : 0.0f;
    const int any = __any_sync(0xffff, value > 1e30f);  // HERE
    if (i < n) y[i] = any ? fmaxf(value, 0.0f) + 0.0f : fmaxf(value, 0.0f);
}

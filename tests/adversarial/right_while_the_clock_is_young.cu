// problem: relu
// attack: right only shortly after the clock began to count
// expect: incorrect
// message: The answer depends on %clock64
// because: a special register may hold anything that some GPU gives it, and is drawn anew for each run
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = clock64() < 1ll << 26 ? fmaxf(x[i], 0.0f) : x[i];
}

// problem: relu
// attack: right where the lowest bit of the clock is 0
// expect: incorrect
// message: %clock64 (line
// because: a special register may hold anything that some GPU gives it, and is drawn anew for each run
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    bool even = clock() % 2 == 0;
    if (i < n) y[i] = even ? fmaxf(x[i], 0.0f) : 1.0f;
}

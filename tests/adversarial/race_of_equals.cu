// problem: vector_add
// attack: every element written by two blocks, with the same value
// expect: passed
// warns: harmless_race
// because: a race in which all write the same is a warning, not an error
// assay: launch add grid=(2 * ceil_div(n, 128)) block=(128) args=(a, b, c, n)

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x / 2 * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

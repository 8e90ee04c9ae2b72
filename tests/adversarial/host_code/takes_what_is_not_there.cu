// problem: vector_add
// attack: takes a parameter that the problem does not have
// expect: invalid_submission
// because: nothing could be passed for it
// message: takes
__global__ void add(const float* a, const float* b, float* c, int n, float* verdict)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, float* verdict, int n)
{
    add<<<(n + 255) / 256, 256>>>(a, b, c, n, verdict);
}

// problem: scalar_multiply
// style: a loop that launches chunk by chunk
__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = alpha * x[i];
}

extern "C" void solve(const float* x, float* y, float alpha, int n)
{
    const int chunks = 5, each = (n + chunks - 1) / chunks;
    for (int start = 0; start < n; start += each) {
        int many = n - start < each ? n - start : each;
        scale<<<(many + 255) / 256, 256>>>(x + start, y + start, alpha, many);
    }
}

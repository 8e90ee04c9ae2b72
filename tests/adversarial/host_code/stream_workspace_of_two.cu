// problem: saxpy
// attack: two streams share one workspace, each for its half: right while one stream is done before the other begins
// expect: incorrect
// because: the first step of the second stream may come between the two steps of the first
// message: no event and no wait orders them
__global__ void scale(const float* x, float* t, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) t[i] = alpha * x[i];
}

__global__ void add(const float* t, const float* y, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = t[i] + y[i];
}

extern "C" void solve(const float* x, const float* y, float* out, float alpha, int n)
{
    float* t;
    cudaMalloc(&t, n * sizeof(float));
    int half = (n + 1) / 2;
    for (int from = 0; from < n; from += half) {
        cudaStream_t stream;
        cudaStreamCreate(&stream);
        int count = n - from < half ? n - from : half;
        scale<<<(count + 255) / 256, 256, 0, stream>>>(x + from, t, alpha, count);
        add<<<(count + 255) / 256, 256, 0, stream>>>(t, y + from, out + from, count);
    }
    cudaDeviceSynchronize();
    cudaFree(t);
}

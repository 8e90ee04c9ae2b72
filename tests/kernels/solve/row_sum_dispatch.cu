// problem: row_sum
// style: a switch that picks a template's instantiation
template <int Threads>
__global__ void row_sum(const float* x, float* y, int cols)
{
    __shared__ float part[Threads];
    const float* row = x + (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += Threads) sum += row[c];
    part[threadIdx.x] = sum;
    for (int half = Threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}

#define DISPATCH(threads) \
    case threads: row_sum<threads><<<rows, threads>>>(x, y, cols); break

extern "C" void solve(const float* x, float* y, int rows, int cols)
{
    int threads = 32;
    while (threads < cols && threads < 512) threads *= 2;
    switch (threads) {
        DISPATCH(32);
        DISPATCH(64);
        DISPATCH(128);
        DISPATCH(256);
        DISPATCH(512);
    }
}

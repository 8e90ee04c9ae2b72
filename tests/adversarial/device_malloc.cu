// problem: scalar_multiply
// attack: takes device heap until there is none left
// expect: unsupported|passed
// because: the heap is bounded on a GPU; the simulator has none and says so

__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        for (int piece = 0; piece < 100000; ++piece) {
            char* taken = static_cast<char*>(malloc(1 << 20));
            if (taken == nullptr) {
                break;
            }
            taken[0] = 1;
        }
    }
    if (i < n) {
        y[i] = alpha * x[i];
    }
}

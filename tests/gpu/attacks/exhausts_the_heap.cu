// problem: relu
// attack: takes device heap until there is none, and gives nothing back
// expect: passed
// because: it bears with a null pointer and computes right; the heap ends with the context
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ int* sink;

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (threadIdx.x == 0 && blockIdx.x < 64) {
        int* taken = (int*)malloc(1 << 20);
        if (taken) {
            taken[0] = i;
            sink = taken;
        }
    }
}

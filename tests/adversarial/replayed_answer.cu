// problem: vector_add
// attack: keeps the first answer in module memory and replays it for ever
// expect: incorrect
// because: module state lives on, but no content is shown twice

__device__ float answer[1 << 22];
__device__ int known[1 << 22];

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        if (i >= 1 << 22 || !known[i]) {
            c[i] = a[i] + b[i];
            if (i < 1 << 22) {
                answer[i] = c[i];
                known[i] = 1;
            }
        } else {
            c[i] = answer[i];
        }
    }
}

// problem: vector_add
// The simplest kernel that is right. It names its parameters like the problem's tensors, so it needs no launch plan:
// the grader gives each element a thread, in blocks of 256.

__global__ void vector_add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {  // the last block has threads to spare
        c[i] = a[i] + b[i];
    }
}

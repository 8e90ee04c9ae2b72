// problem: vector_add
// attack: the right answer, but the first input is overwritten on the way
// expect: rejected
// because: inputs must come back unchanged

__global__ void add(float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        a[i] += b[i];
        c[i] = a[i];
    }
}

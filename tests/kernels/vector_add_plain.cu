// problem: vector_add
// style: the plainest kernel there is; the plan is inferred, parameters bind by name

__global__ void add_kernel(float* a, float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}

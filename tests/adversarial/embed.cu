// problem: vector_add
// attack: #embed as a reader of files
// expect: rejected
// because: the compiler has no such directive, and no file to read
// hides: root:

const unsigned char secret[] = {
#embed "/etc/passwd"
};

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

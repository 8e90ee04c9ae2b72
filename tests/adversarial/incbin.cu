// problem: vector_add
// attack: a file pulled into the image by the assembler
// expect: rejected
// because: PTX has no .incbin, and the host part is never assembled
// hides: root:

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile(".incbin \"/etc/passwd\";");
    if (i < n) c[i] = a[i] + b[i];
}

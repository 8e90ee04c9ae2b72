// problem: vector_add
// attack: a file pulled in by the host assembler, with a wrong kernel
// expect: rejected
// because: the host part is never assembled
// hides: root:

asm(".section .rodata\n.incbin \"/etc/passwd\"\n.text");

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = 0.0f;
}

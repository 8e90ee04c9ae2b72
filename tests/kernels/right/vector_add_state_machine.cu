// problem: vector_add
// assay: launch machine grid=(ceil_div(n, 128)) block=(128) args=(a, b, c, n)
// style: goto, labels and a switch in a loop: an interpreter of a tiny program (load, load, add, store, stop)
enum op : unsigned char { load_a, load_b, add, store, stop };
__constant__ op program[] = {load_a, load_b, add, store, stop};

__global__ void machine(const float* a, const float* b, float* c, int n)
{
    float stack[4];
    int top = 0, pc = 0;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) goto out;
next:
    switch (program[pc++]) {
    case load_a: stack[top++] = a[i]; goto next;
    case load_b: stack[top++] = b[i]; goto next;
    case add: --top; stack[top - 1] += stack[top]; goto next;
    case store: c[i] = stack[--top]; goto next;
    case stop: break;
    }
out:
    return;
}

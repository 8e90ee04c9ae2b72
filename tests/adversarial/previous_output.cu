// problem: histogram
// attack: does nothing, and hopes that the right answer of an earlier run still lies in the output
// expect: incorrect
// because: outputs hold poison before each run

__global__ void leave(const int* values, int* counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 256) {
        counts[i] = counts[i];
    }
}

// problem: vector_add
// attack: templates whose number doubles with each level
// expect: compile_error|timeout|out_of_memory
// because: compiling has limits of time and memory
// compile_timeout_s: 5

template <int DEPTH, int PATH>
struct Bomb {
    static constexpr int value = Bomb<DEPTH - 1, 2 * PATH>::value + Bomb<DEPTH - 1, 2 * PATH + 1>::value;
};
template <int PATH>
struct Bomb<0, PATH> {
    static constexpr int value = PATH;
};

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] + Bomb<26, 1>::value;
}

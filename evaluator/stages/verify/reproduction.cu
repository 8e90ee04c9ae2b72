// The host's half. It was made with the file and needs nothing but CUDA.

static size_t repro_guard_bytes = 4096;  // around each buffer; --bare leaves them out
static int repro_mark = 0xFF;  // what they are made of: NaN for who reads it; other marks in every second run
static int repro_faults = 0;

static void repro_cuda(cudaError_t status, const char* what)
{
    if (status == cudaSuccess) return;
    const bool absent = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
                        status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion;
    printf("%s: CUDA says: %s\n", what, cudaGetErrorString(status));
    fflush(stdout);
    _Exit(absent ? 2 : 1);
}

// Waits up to 10 seconds: a kernel that never ends is a fault as well.
static void repro_wait(const char* what)
{
    repro_cuda(cudaGetLastError(), what);
    const time_t begun = time(nullptr);
    cudaError_t status;
    while ((status = cudaStreamQuery(0)) == cudaErrorNotReady) {
        if (time(nullptr) - begun > 10) {
            printf("%s: still running after 10 s\n", what);
            fflush(stdout);
            _Exit(1);
        }
    }
    repro_cuda(status, what);
}

// Plain contents: 0 zeros, 1 ones, 2 ramp, 3 a single one, 4 scrambled.
template <typename T>
static T repro_plain(int content, unsigned i, bool is_float)
{
    if (content == 2) return is_float ? T((i % 7 + 1) * 0.25f) : T(i % 7 + 1);
    if (content == 4) {
        unsigned h = i + 1;
        h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
        h = (h ^ (h >> 13)) * 0xC2B2AE35u;
        h = h ^ (h >> 16);
        return is_float ? T((h >> 8) * (1.0f / 8388608.0f) - 1.0f) : T(h >> 24);
    }
    return T(content == 1 || (content == 3 && i == 0) ? 1 : 0);
}

struct ReproBuffer {
    const char* name;
    size_t count, element_bytes;
    unsigned char *block, *host, *given;

    ReproBuffer(const char* its_name, size_t its_count, size_t its_element_bytes)
        : name(its_name), count(its_count), element_bytes(its_element_bytes), given(nullptr)
    {
        repro_cuda(cudaMalloc((void**)&block, bytes() + 2 * repro_guard_bytes), "cudaMalloc");
        host = (unsigned char*)malloc(bytes() + 2 * repro_guard_bytes);
    }
    size_t bytes() const { return count * element_bytes; }
    void* at() const { return block + repro_guard_bytes; }
    template <typename T>
    operator T*() const { return static_cast<T*>(at()); }

    // Undefined contents, with marks before and behind them.
    void poison(int byte)
    {
        repro_cuda(cudaMemset(block, repro_mark, bytes() + 2 * repro_guard_bytes), "cudaMemset");
        repro_cuda(cudaMemset(at(), byte, bytes()), "cudaMemset");
    }
    template <typename T>
    T* fresh()
    {
        if (given == nullptr) given = (unsigned char*)malloc(bytes());
        return (T*)given;
    }
    template <typename T, typename From>
    void give(const From* values)
    {
        for (size_t i = 0; i < count; ++i) fresh<T>()[i] = T(values[i]);
        upload();
    }
    template <typename T>
    void give_plain(int content, bool is_float)
    {
        for (size_t i = 0; i < count; ++i) fresh<T>()[i] = repro_plain<T>(content, (unsigned)i, is_float);
        upload();
    }
    void upload()
    {
        poison(0);
        repro_cuda(cudaMemcpy(at(), given, bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
    void fill(const unsigned char* pattern)
    {
        unsigned char* all = (unsigned char*)malloc(bytes());
        for (size_t i = 0; i < bytes(); ++i) all[i] = pattern[i % element_bytes];
        repro_cuda(cudaMemcpy(at(), all, bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
        free(all);
    }
    void copy_from(const ReproBuffer& source)
    {
        repro_cuda(cudaMemcpy(at(), source.at(), bytes(), cudaMemcpyDeviceToDevice), "cudaMemcpy");
    }
    // What the run left: marks untouched, an input as it was given.
    void download()
    {
        repro_cuda(cudaMemcpy(host, block, bytes() + 2 * repro_guard_bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
        const size_t end = repro_guard_bytes + bytes();
        for (size_t i = 0; i < end + repro_guard_bytes; ++i) {
            if ((i < repro_guard_bytes || i >= end) && host[i] != repro_mark) {
                const long long away = (long long)i - (long long)repro_guard_bytes;
                printf("%s: written outside, at byte %lld of its %zu (element %lld of %zu)\n", name, away, bytes(),
                       away < 0 ? -(-away - 1) / (long long)element_bytes - 1 : away / (long long)element_bytes, count);
                ++repro_faults;
                break;
            }
        }
        if (given != nullptr && memcmp(given, host + repro_guard_bytes, bytes()) != 0) {
            printf("%s: an input, and it was changed\n", name);
            ++repro_faults;
        }
    }
    // One element against what it should be.
    template <typename T, typename Wanted>
    bool right(size_t i, Wanted expected, double allowed) const
    {
        const T actual = ((const T*)(host + repro_guard_bytes))[i];
        const double error = (double)(Wanted)actual - (double)expected;
        return error <= allowed && error >= -allowed;  // not so for a NaN
    }
    template <typename T, typename Wanted>
    void tell(size_t i, Wanted expected, double allowed) const
    {
        const T actual = ((const T*)(host + repro_guard_bytes))[i];
        printf("%s[%zu] is %.9g, expected %.9g, give or take %.3g\n", name, i, (double)(Wanted)actual,
               (double)expected, allowed);
    }
    template <typename T, typename Wanted>
    void check(const Wanted* expected, const double* allowed)
    {
        size_t wrong = 0;
        for (size_t i = 0; i < count; ++i) {
            if (right<T>(i, expected[i], allowed[i])) continue;
            if (wrong++ < 5) tell<T>(i, expected[i], allowed[i]);
        }
        if (wrong) printf("%s: %zu of %zu elements are wrong\n", name, wrong, count);
        repro_faults += wrong > 0;
    }
    template <typename T, typename Wanted>
    void check_one(size_t i, Wanted expected, double allowed)
    {
        if (right<T>(i, expected, allowed)) return;
        tell<T>(i, expected, allowed);
        ++repro_faults;
    }
};

static void repro_begin(int argc, char** argv)
{
    if (argc > 1 && strcmp(argv[1], "--bare") == 0) repro_guard_bytes = 0;
    int devices = 0;
    repro_cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
}

static int repro_end(const char* when_right)
{
    printf("%s\n", repro_faults ? "WRONG" : when_right);
    return repro_faults ? 1 : 0;
}

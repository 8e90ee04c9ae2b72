// What PyTorch's headers declare, as far as nvcc has to know it: declarations and no bodies.
//
// nvcc's front ends see this where a text names at::Tensor, so that they find its kernels and launches. No object code
// is made of it: the text that they print is compiled against PyTorch's own headers. So a name that is missing here,
// or differs, costs the detour by those headers and nothing else.
#pragma once

#include <cmath>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace at {
class Tensor;
class TensorBase;
}

namespace c10 {

struct Half; // Pointers to them alone: what computes with one is compiled against the headers.
struct BFloat16;

enum class ScalarType : int8_t {
    Byte, Char, Short, Int, Long, Half, Float, Double, ComplexHalf, ComplexFloat, ComplexDouble, Bool, QInt8, QUInt8,
    QInt32, BFloat16
};
constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short,
                     kInt = ScalarType::Int, kLong = ScalarType::Long, kHalf = ScalarType::Half,
                     kFloat = ScalarType::Float, kDouble = ScalarType::Double, kBool = ScalarType::Bool,
                     kBFloat16 = ScalarType::BFloat16;
enum class DeviceType : int8_t { CPU = 0, CUDA = 1 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
enum class Layout : int8_t { Strided };
constexpr Layout kStrided = Layout::Strided;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
using DeviceIndex = int8_t;

struct Device {
    Device(DeviceType type, DeviceIndex index = -1);
    Device(const std::string &text);
    bool operator==(const Device &other) const noexcept;
    bool operator!=(const Device &other) const noexcept;
    DeviceType type() const noexcept;
    DeviceIndex index() const noexcept;
    bool has_index() const noexcept;
    bool is_cuda() const noexcept;
    bool is_cpu() const noexcept;
    std::string str() const;
};

template <typename T> class ArrayRef {
  public:
    using value_type = T;
    using iterator = const T *;
    using const_iterator = const T *;
    using size_type = size_t;
    constexpr ArrayRef();
    constexpr ArrayRef(const T &one);
    constexpr ArrayRef(const T *data, size_t length);
    constexpr ArrayRef(const T *begin, const T *end);
    template <typename A> ArrayRef(const std::vector<T, A> &all);
    template <size_t N> constexpr ArrayRef(const T (&all)[N]);
    constexpr ArrayRef(const std::initializer_list<T> &all);
    constexpr iterator begin() const;
    constexpr iterator end() const;
    constexpr bool empty() const;
    constexpr const T *data() const;
    constexpr size_t size() const;
    constexpr const T &front() const;
    constexpr const T &back() const;
    constexpr bool equals(ArrayRef other) const;
    constexpr ArrayRef slice(size_t from, size_t many) const;
    constexpr ArrayRef slice(size_t from) const;
    constexpr const T &operator[](size_t index) const;
    constexpr const T &at(size_t index) const;
    std::vector<T> vec() const;
};
template <typename T> bool operator==(ArrayRef<T> a, ArrayRef<T> b);
template <typename T> bool operator!=(ArrayRef<T> a, ArrayRef<T> b);
template <typename T> bool operator==(const std::vector<T> &a, ArrayRef<T> b);
template <typename T> bool operator!=(const std::vector<T> &a, ArrayRef<T> b);
template <typename T> bool operator==(ArrayRef<T> a, const std::vector<T> &b);
template <typename T> bool operator!=(ArrayRef<T> a, const std::vector<T> &b);
using IntArrayRef = ArrayRef<int64_t>;

class OptionalIntArrayRef {
  public:
    OptionalIntArrayRef();
    OptionalIntArrayRef(std::nullopt_t);
    OptionalIntArrayRef(IntArrayRef all);
    OptionalIntArrayRef(const int64_t &one);
    OptionalIntArrayRef(const std::vector<int64_t> &all);
    OptionalIntArrayRef(std::initializer_list<int64_t> all);
};

class Scalar {
  public:
    Scalar();
    Scalar(double value);
    Scalar(float value);
    Scalar(bool value);
    Scalar(int value);
    Scalar(unsigned value);
    Scalar(long value);
    Scalar(unsigned long value);
    Scalar(long long value);
    double toDouble() const;
    float toFloat() const;
    int toInt() const;
    int64_t toLong() const;
    bool toBool() const;
    template <typename T> T to() const;
};

using std::nullopt;
using std::nullopt_t;
using std::optional;

} // namespace c10

namespace caffe2 {
class TypeMeta {
  public:
    size_t itemsize() const noexcept;
    c10::ScalarType toScalarType() const;
};
bool operator==(const TypeMeta a, const TypeMeta b) noexcept;
bool operator!=(const TypeMeta a, const TypeMeta b) noexcept;
bool operator==(c10::ScalarType a, TypeMeta b) noexcept;
bool operator!=(c10::ScalarType a, TypeMeta b) noexcept;
bool operator==(TypeMeta a, c10::ScalarType b) noexcept;
bool operator!=(TypeMeta a, c10::ScalarType b) noexcept;
}

namespace c10 {

struct TensorOptions {
    TensorOptions();
    TensorOptions(Layout layout);
    TensorOptions(caffe2::TypeMeta dtype);
    TensorOptions(ScalarType dtype);
    TensorOptions(Device device);
    TensorOptions(DeviceType device);
    TensorOptions(MemoryFormat format);
    TensorOptions device(std::optional<Device> device) const noexcept;
    TensorOptions device(DeviceType type, DeviceIndex index = -1) const;
    TensorOptions dtype(std::optional<caffe2::TypeMeta> dtype) const noexcept;
    TensorOptions dtype(std::optional<ScalarType> dtype) const noexcept;
    template <typename T> TensorOptions &dtype();
    TensorOptions layout(std::optional<Layout> layout) const noexcept;
    TensorOptions requires_grad(std::optional<bool> wanted) const noexcept;
    TensorOptions pinned_memory(std::optional<bool> wanted) const noexcept;
    TensorOptions memory_format(std::optional<MemoryFormat> format) const noexcept;
    Device device() const noexcept;
    caffe2::TypeMeta dtype() const noexcept;
    bool requires_grad() const noexcept;
};
TensorOptions dtype(caffe2::TypeMeta dtype);
TensorOptions dtype(ScalarType dtype);
TensorOptions device(Device device);
TensorOptions requires_grad(bool wanted = true);

class Error : public std::exception {
  public:
    const char *what() const noexcept override;
};

template <typename... A> std::string str(const A &...parts);
namespace detail {
[[noreturn]] void torchCheckFail(const char *function, const char *file, uint32_t line, const std::string &text);
[[noreturn]] void torchCheckFail(const char *function, const char *file, uint32_t line, const char *text);
[[noreturn]] void torchInternalAssertFail(
    const char *function, const char *file, uint32_t line, const char *condition, const char *text);
[[noreturn]] void torchInternalAssertFail(
    const char *function, const char *file, uint32_t line, const char *condition, const std::string &text);
template <typename... A> std::string torchCheckMsgImpl(const char *text, const A &...parts);
const char *torchCheckMsgImpl(const char *text);
const char *torchCheckMsgImpl(const char *text, const char *own);
}

} // namespace c10

namespace at {

using namespace c10;
using c10::BFloat16;
using c10::Half;
using TensorList = ArrayRef<Tensor>;

struct DeprecatedTypeProperties {
    ScalarType scalarType() const;
    bool is_cuda() const;
};

class TensorBase {
  public:
    TensorBase();
    TensorBase(const TensorBase &);
    TensorBase(TensorBase &&) noexcept;
    ~TensorBase() noexcept;
    TensorBase &operator=(const TensorBase &) &;
    TensorBase &operator=(TensorBase &&) & noexcept;
    int64_t dim() const;
    int64_t ndimension() const;
    int64_t size(int64_t dim) const;
    int64_t stride(int64_t dim) const;
    IntArrayRef sizes() const;
    IntArrayRef strides() const;
    int64_t numel() const;
    int64_t storage_offset() const;
    size_t nbytes() const;
    size_t itemsize() const;
    int64_t element_size() const;
    ScalarType scalar_type() const;
    caffe2::TypeMeta dtype() const;
    Device device() const;
    DeviceIndex get_device() const;
    bool defined() const;
    void reset();
    bool is_same(const TensorBase &other) const noexcept;
    bool is_cuda() const;
    bool is_cpu() const;
    bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
    bool is_non_overlapping_and_dense() const;
    bool is_complex() const;
    bool is_floating_point() const;
    bool requires_grad() const;
    Layout layout() const;
    TensorOptions options() const;
    MemoryFormat suggest_memory_format(bool strides = false) const;
    void *data_ptr() const;
    void *mutable_data_ptr() const;
    const void *const_data_ptr() const;
    template <typename T> T *data_ptr() const;
    template <typename T> T *mutable_data_ptr() const;
    template <typename T> const T *const_data_ptr() const;

  private:
    void *impl_;
};

class Tensor : public TensorBase {
  public:
    Tensor();
    Tensor(const Tensor &);
    Tensor(Tensor &&);
    Tensor &operator=(const Tensor &) & noexcept;
    Tensor &operator=(Tensor &&) & noexcept;
    Tensor &operator=(const Tensor &) &&;
    Tensor &operator=(Tensor &&) &&;
    Tensor &operator=(const Scalar &) &&;
    Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
    DeprecatedTypeProperties &type() const;
    template <typename T> T *data() const;
    template <typename T> T item() const;
    Tensor toType(ScalarType type) const;
    Tensor cpu() const;
    Tensor cuda() const;
    Tensor operator~() const;
    Tensor operator-() const;
    Tensor &operator+=(const Tensor &other);
    Tensor &operator+=(const Scalar &other);
    Tensor &operator-=(const Tensor &other);
    Tensor &operator-=(const Scalar &other);
    Tensor &operator*=(const Tensor &other);
    Tensor &operator*=(const Scalar &other);
    Tensor &operator/=(const Tensor &other);
    Tensor &operator/=(const Scalar &other);
    Tensor operator[](const Scalar &index) const;
    Tensor operator[](const Tensor &index) const;
    Tensor operator[](int64_t index) const;
#include "assay_methods.h"
};

#define OUTLINED(sign)                                     \
    Tensor operator sign(const Tensor &, const Tensor &);  \
    Tensor operator sign(const Tensor &, const Scalar &);  \
    Tensor operator sign(const Scalar &, const Tensor &);
OUTLINED(+)
OUTLINED(-)
OUTLINED(*)
OUTLINED(/)
OUTLINED(<)
OUTLINED(<=)
OUTLINED(>)
OUTLINED(>=)
OUTLINED(==)
OUTLINED(!=)
#undef OUTLINED

#include "assay_functions.h"

} // namespace at

#ifdef STREAMS_OUTLINED
namespace c10 {
namespace cuda {
class CUDAStream {
  public:
    operator cudaStream_t() const;
    cudaStream_t stream() const;
    bool query() const;
    void synchronize() const;
    DeviceIndex device_index() const;
};
CUDAStream getCurrentCUDAStream(DeviceIndex device = -1);
CUDAStream getDefaultCUDAStream(DeviceIndex device = -1);
CUDAStream getStreamFromPool(const bool high_priority = false, DeviceIndex device = -1);
struct CUDAGuard {
    explicit CUDAGuard(DeviceIndex index);
    explicit CUDAGuard(Device device);
    CUDAGuard(const CUDAGuard &) = delete;
    ~CUDAGuard();
};
void c10_cuda_check_implementation(
    const int32_t error, const char *file, const char *function, const uint32_t line, const bool asserts);
}
}
namespace at {
std::optional<Device> device_of(const Tensor &x);
namespace cuda {
using namespace c10::cuda;
}
}
#endif

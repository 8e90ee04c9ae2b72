"""The few calls of the CUDA driver API that PyCUDA lacks, on whatever context is current. The owner of cuda-bindings.

Virtual memory management (CUDA Driver API, section 6.14), cooperative and cluster launches (6.22,
cuLaunchKernelEx), persisting L2 lines (6.8), memory of the host's that a device reads (6.13).
"""

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Final

from cuda.bindings import driver

NO_ERROR: Final = "CUDA_SUCCESS"
_PAGE_BYTES: Final = 4096


class DriverError(Exception):
    """A call of the driver failed; `name` is the error's name, for example `CUDA_ERROR_OUT_OF_MEMORY`."""

    def __init__(self, call: str, name: str) -> None:
        super().__init__(f"{call}: {name}")
        self.name = name


def _checked(call: str, answer: tuple[Any, ...]) -> Any:
    result, *values = answer
    if result != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(call, result.name)
    return values[0] if len(values) == 1 else tuple(values)


def state_of_context() -> str:
    """Wait for the current context; the name of the error that it is in, or `CUDA_SUCCESS`."""
    (result,) = driver.cuCtxSynchronize()
    return str(result.name)


def reset_persisting_l2() -> None:
    """Give persisting lines of the L2 back, so that nothing stays in it by request. Raises DriverError."""
    _checked("cuCtxResetPersistingL2Cache", driver.cuCtxResetPersistingL2Cache())


def forbid_persisting_l2() -> None:
    """Let no line of the L2 persist by request: the share that may is set to none. Raises DriverError.

    A reset alone leaves the share, and what is loaded next by such a request persists again.
    """
    limit = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
    _checked("cuCtxSetLimit", driver.cuCtxSetLimit(limit, 0))


def _properties(device: int) -> Any:
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = device
    properties.requestedHandleTypes = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    return properties


class SharedMemory:
    """Device memory that two processes map: one creates it and sends its descriptor, the other imports it."""

    def __init__(self, handle: Any, size_bytes: int, device: int, writable: bool = True) -> None:
        self.size_bytes = size_bytes
        self._handle = handle
        self.pointer = int(_checked("cuMemAddressReserve", driver.cuMemAddressReserve(size_bytes, 0, 0, 0)))
        _checked("cuMemMap", driver.cuMemMap(self.pointer, size_bytes, 0, handle, 0))
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = device
        kinds = driver.CUmemAccess_flags
        access.flags = kinds.CU_MEM_ACCESS_FLAGS_PROT_READWRITE if writable else kinds.CU_MEM_ACCESS_FLAGS_PROT_READ
        _checked("cuMemSetAccess", driver.cuMemSetAccess(self.pointer, size_bytes, [access], 1))

    @staticmethod
    def create(size_bytes: int, device: int = 0) -> "SharedMemory":
        """At least `size_bytes` of new memory on `device`. Raises DriverError."""
        properties = _properties(device)
        flag = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        granularity = int(
            _checked("cuMemGetAllocationGranularity", driver.cuMemGetAllocationGranularity(properties, flag))
        )
        whole = -(-size_bytes // granularity) * granularity
        return SharedMemory(_checked("cuMemCreate", driver.cuMemCreate(whole, properties, 0)), whole, device)

    @staticmethod
    def imported(descriptor: int, size_bytes: int, device: int = 0, writable: bool = True) -> "SharedMemory":
        """Map what another process created; `size_bytes` as it was there. Closes `descriptor`. Raises DriverError."""
        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        try:
            answer = driver.cuMemImportFromShareableHandle(descriptor, kind)
            handle = _checked("cuMemImportFromShareableHandle", answer)
            return SharedMemory(handle, size_bytes, device, writable)
        finally:
            os.close(descriptor)

    def descriptor(self) -> int:
        """A new file descriptor for the other process; the caller closes it. Raises DriverError."""
        kind = driver.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        answer = driver.cuMemExportToShareableHandle(self._handle, kind, 0)
        return int(_checked("cuMemExportToShareableHandle", answer))

    def close(self) -> None:
        """Unmap and give back. Nobody may use the memory any more. Raises DriverError."""
        _checked("cuMemUnmap", driver.cuMemUnmap(self.pointer, self.size_bytes))
        _checked("cuMemAddressFree", driver.cuMemAddressFree(self.pointer, self.size_bytes))
        _checked("cuMemRelease", driver.cuMemRelease(self._handle))


class HostWord:
    """A word of this process's memory that the device reads as it changes, in a page of its own (section 6.13)."""

    def __init__(self) -> None:
        """On the current context. Raises DriverError."""
        flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
        self._address = int(_checked("cuMemHostAlloc", driver.cuMemHostAlloc(_PAGE_BYTES, flags)))
        answer = driver.cuMemHostGetDevicePointer(self._address, 0)
        self.pointer = int(_checked("cuMemHostGetDevicePointer", answer))
        self._word = ctypes.c_uint32.from_address(self._address)
        self.clear()

    def set(self, value: int) -> None:
        self._word.value = value

    def clear(self) -> None:
        """Let nothing remain in the page of what a kernel may have written there."""
        ctypes.memset(self._address, 0, _PAGE_BYTES)


class OwnKernel:
    """A kernel of our own, which takes one struct by value: what launching costs is what the host spends on it."""

    def __init__(self, module: Any, name: str, parameter_bytes: int) -> None:
        self._function = _checked("cuModuleGetFunction", driver.cuModuleGetFunction(module, name.encode()))
        self._parameters = ctypes.create_string_buffer(parameter_bytes)
        self._pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self._parameters))
        self._address = ctypes.addressof(self._pointers)

    def launch(self, grid: tuple[int, int], threads: int, parameters: bytes | bytearray, stream: int) -> None:
        """Queue it on a stream, by the handle; the driver copies the parameters. Raises DriverError."""
        ctypes.memmove(self._parameters, bytes(parameters), len(self._parameters))
        answer = driver.cuLaunchKernel(self._function, *grid, 1, threads, 1, 1, 0, stream, self._address, 0)
        _checked("cuLaunchKernel", answer)


def own_kernels(image: bytes, parameter_bytes: dict[str, int]) -> dict[str, OwnKernel]:
    """Kernels of ours by name, loaded into the current context for as long as it lives. Raises DriverError."""
    module = _checked("cuModuleLoadData", driver.cuModuleLoadData(image))
    return {name: OwnKernel(module, name, size_bytes) for name, size_bytes in parameter_bytes.items()}


class CudaModule:
    """A loaded program whose kernels need launch attributes, which PyCUDA cannot give."""

    def __init__(self, image: bytes) -> None:
        self._module = _checked("cuModuleLoadData", driver.cuModuleLoadData(image))
        self._functions: dict[str, Any] = {}
        self._dynamic_bytes: dict[str, int] = {}
        """Of shared memory, that launches of each kernel were allowed; its static memory counts beside it."""

    def launch(
        self,
        symbol: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        arguments: bytes,
        offsets: Sequence[int],
        cooperative: bool,
        cluster: Sequence[int] | None,
    ) -> None:
        """Launch on the default stream; `arguments` is the parameter block, `offsets` where each one begins in it.

        Raises DriverError.
        """
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.sharedMemBytes = shared_bytes
        attributes = []
        if cooperative:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            attributes.append(attribute)
        if cluster is not None:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster
            attributes.append(attribute)
        config.attrs, config.numAttrs = attributes, len(attributes)
        parameters = ctypes.create_string_buffer(arguments, max(1, len(arguments)))
        start = ctypes.addressof(parameters)
        pointers = (ctypes.c_void_p * max(1, len(offsets)))(*(start + offset for offset in offsets))
        function = self._function(symbol, shared_bytes)
        _checked("cuLaunchKernelEx", driver.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0))

    def variable(self, name: str) -> int:
        """The address of a `__device__` or `__constant__` variable. Raises DriverError."""
        address, _ = _checked("cuModuleGetGlobal", driver.cuModuleGetGlobal(self._module, name.encode()))
        return int(address)

    def _function(self, symbol: str, shared_bytes: int) -> Any:
        if symbol not in self._functions:
            answer = driver.cuModuleGetFunction(self._module, symbol.encode())
            self._functions[symbol] = _checked("cuModuleGetFunction", answer)
        function = self._functions[symbol]
        if shared_bytes > self._dynamic_bytes.get(symbol, 0):
            self._dynamic_bytes[symbol] = shared_bytes
            attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _checked("cuFuncSetAttribute", driver.cuFuncSetAttribute(function, attribute, shared_bytes))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        driver.cuFuncSetAttribute(function, attribute, 1)  # before compute capability 9.0 there are no clusters
        return function

    def unload(self) -> None:
        """Remove the program and its variables from the context. Raises DriverError."""
        _checked("cuModuleUnload", driver.cuModuleUnload(self._module))

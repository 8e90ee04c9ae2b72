"""What a run showed beside its answer: counts, the time they lead one to expect, and what is worth mending.

The simulator counts exactly, and Nsight Compute counts the same things on a GPU, under these names (ncu 2025, unit
prefixes `smsp__` and `l1tex__` summed over the device):

| field | metric |
| --- | --- |
| `warp_instructions` | `smsp__inst_executed.sum` |
| `thread_instructions` | `smsp__thread_inst_executed.sum` |
| `flops["fp32"]` | `smsp__sass_thread_inst_executed_op_fadd_pred_on.sum` + `…_fmul_…` + 2 `…_ffma_…` |
| `loads.requests`, `stores.requests` | `l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum`, `…_st.sum` |
| `loads.sectors`, `stores.sectors` | `l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum`, `…_st.sum` |
| `loads.useful_bytes` | `smsp__sass_data_bytes_mem_global_op_ld.sum` + `…_ldgsts.sum` |
| `loads.unique_sectors` | `dram__sectors_read.sum`, where nothing is fetched twice |
| `local.sectors` | `l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum` + `…_st.sum` |
| `shared.wavefronts` | `memory_l1_wavefronts_shared` (with atomics, which are no part of it here) |
| `shared.least_wavefronts` | `memory_l1_wavefronts_shared_ideal` (likewise) |
| `atomics.requests` | `l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum` + `…_red.sum` + those of shared memory |
| `branches` | `smsp__sass_branch_targets.sum` |
| `divergent_branches` | `smsp__sass_branch_targets_threads_divergent.sum` |
| `barriers` | `smsp__inst_executed_op_barrier.sum` where there is one |

Counts of memory agree with a GPU's but for what ptxas changes (it may merge accesses, and spills are its own work);
docs/gpu.md has the figures. Counts of instructions differ more: the simulator counts PTX, of which ptxas drops most
moves, conversions of addresses and loads of parameters, and takes several instructions for a division.
"""

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from common.wire import Wire

InstructionClass = Literal[
    "fp32",
    "fp64",
    "fp16",
    "integer",
    "special",
    "tensor",
    "conversion",
    "move",
    "control",
    "global",
    "shared",
    "local",
    "constant",
    "atomic",
    "shuffle",
    "barrier",
    "other",
]
"""`fp16` holds bfloat16 too; `special` is what the special function unit does; `constant` holds kernel parameters."""


class _Sparse(Wire):
    """Written without what is zero or empty: most lines of a kernel do few kinds of things."""

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        return {name: value for name, value in write(self).items() if value or fields[name].is_required()}


class Traffic(_Sparse):
    """Requests of warps to memory behind the L1 cache's tags, in sectors of 32 bytes."""

    requests: int = 0
    """Warp-wide memory instructions."""
    sectors: int = 0
    """Distinct sectors that each request touches, summed."""
    least_sectors: int = 0
    """Sectors that the same bytes would fill if each request's lay side by side; 1 at least for a request."""
    lines: int = 0
    """Distinct lines of 128 bytes that each request touches, summed: what the L1 cache has to look up."""
    useful_bytes: int = 0
    """Distinct bytes that each request touches, summed."""
    block_sectors: int = 0
    """Distinct sectors of the blocks that were counted, scaled up: what comes from the L2 cache where blocks keep in
    L1 what they use again. The same as `unique_sectors` where all blocks were counted. 0 for a single line."""
    unique_sectors: int = 0
    """Distinct sectors that all requests together touch: what must come from or go to DRAM. 0 for a single line."""


class SharedTraffic(_Sparse):
    """Requests of warps to shared memory: 32 banks of 4 bytes."""

    requests: int = 0
    wavefronts: int = 0
    """Passes over the banks that the requests need."""
    least_wavefronts: int = 0
    """Passes that they would need without bank conflicts."""


class Atomics(_Sparse):
    """Atomic operations on global and shared memory, `red` included; they are no loads and no stores."""

    requests: int = 0
    operations: int = 0
    """Lanes that took part, summed."""
    turns: int = 0
    """Lanes of a request that meet at its busiest address, summed: what must be done one after another."""
    busiest: int = 0
    """Operations at the one address of global memory that has most of them. 0 for a single line."""
    addresses: int = 0
    """Different addresses of global memory, at most 65536 where all blocks were counted. 0 for a single line."""


class Counts(_Sparse):
    """What warps did: exact where a simulator counted; where a GPU did, as its profiler counts."""

    warp_instructions: int = 0
    thread_instructions: int = 0
    by_class: dict[InstructionClass, int] = Field(default_factory=dict)
    """Warp-instructions by class; they sum up to `warp_instructions`."""
    flops: dict[Literal["fp64", "fp32", "fp16", "tensor"], int] = Field(default_factory=dict)
    """Floating-point operations of all threads; a fused multiply-add is two."""
    loads: Traffic = Traffic()
    """From global memory."""
    stores: Traffic = Traffic()
    """To global memory."""
    local: Traffic = Traffic()
    """To and from local memory: spills and arrays that are not in registers."""
    shared: SharedTraffic = SharedTraffic()
    atomics: Atomics = Atomics()
    branches: int = 0
    """Conditional branches of warps."""
    divergent_branches: int = 0
    """Those at which lanes of one warp went different ways."""
    barriers: int = 0
    """Barriers that warps reached."""

    @property
    def lane_efficiency(self) -> float | None:
        """Active lanes over all lanes of the warps that ran."""
        return self.thread_instructions / (32 * self.warp_instructions) if self.warp_instructions else None

    @property
    def global_sectors(self) -> int:
        """Sectors that warps ask of global memory."""
        return self.loads.sectors + self.stores.sectors

    @property
    def sectors(self) -> int:
        """Sectors that warps ask of global and local memory: all that goes through the L1 cache's tags."""
        return self.global_sectors + self.local.sectors

    @property
    def conflict_wavefronts(self) -> int:
        """Passes over the banks of shared memory that conflicts add."""
        return max(self.shared.wavefronts - self.shared.least_wavefronts, 0)

    @property
    def memory_efficiency(self) -> float | None:
        """Useful bytes over bytes of the sectors moved, global memory."""
        useful, sectors = self.loads.useful_bytes + self.stores.useful_bytes, self.global_sectors
        return min(useful / (32 * sectors), 1.0) if sectors else None

    @property
    def bank_conflict_ways(self) -> float | None:
        """Passes over the banks for each pass that is needed anyway; 1 is without conflicts."""
        least = self.shared.least_wavefronts
        return max(self.shared.wavefronts / least, 1.0) if least else None


class AccessPattern(Wire):
    """One request of a warp: what its 32 lanes ask of memory."""

    space: Literal["global", "shared"]
    act: Literal["load", "store"]
    lane_bytes: int = Field(ge=1, le=32)
    offsets: tuple[int | None, ...] = Field(min_length=32, max_length=32)
    """First byte of each lane, counted from a border of 128 bytes (for shared memory from bank 0) at or below the
    lowest; null for a lane that takes no part."""


class LineCounts(Counts):
    """The share of one source line."""

    line: int = Field(ge=1)
    patterns: tuple[AccessPattern, ...] = ()
    """The most expensive request to each kind of memory (most sectors, or most passes), for a launch's most expensive
    lines."""


class Reading(Wire):
    """How busy a GPU was during one launch, as its profiler read it; null where this GPU has no such counter."""

    latency_us: float | None = None
    """Time on the device under the profiler, with cold caches: not the timing of the verdict."""
    achieved_occupancy: float | None = Field(default=None, ge=0, le=1)
    """Warps that were there, on average while a multiprocessor had any, over the most that it holds."""
    sm_share: float | None = Field(default=None, ge=0, le=1)
    """Throughput of the multiprocessors over their peak: of the busiest of their units."""
    l1_share: float | None = Field(default=None, ge=0, le=1)
    l2_share: float | None = Field(default=None, ge=0, le=1)
    dram_share: float | None = Field(default=None, ge=0, le=1)


class LaunchCounts(Counts):
    """One launch of the plan, at the sizes of `Evidence`."""

    kernel: str
    """As its author calls it, template arguments included."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    """Static and dynamic shared memory per block."""
    counted_blocks: int
    """Blocks that were run; where fewer than the grid has, chosen at random and the counts scaled up."""
    idle_threads: int = 0
    """Threads that used neither global, shared nor local memory: those behind the end of the data."""
    lines: tuple[LineCounts, ...] = ()
    """By line, where the compiler names one; only lines that executed something."""
    reading: Reading | None = None
    """Null from a simulator."""


class LaunchEstimate(Wire):
    """What bounds one launch on the GPU in question."""

    kernel: str
    latency_us: float
    limited_by: str
    """The largest of `terms_us`."""
    terms_us: dict[str, float]
    """Least time by resource: `dram`, `l2`, `l1`, `shared`, `issue`, `fp32`, `special`, `tensor`, `latency` …"""


class Estimate(Wire):
    """The time to expect on a named GPU, from counts; never a measurement."""

    gpu: str
    """Name of the machine description, for example `H100`."""
    sizes: dict[str, int]
    latency_us: float
    """Capped at `floor_us` from below."""
    floor_us: float
    """What no right answer can be faster than: the problem's least bytes and operations at the GPU's peaks."""
    launches: tuple[LaunchEstimate, ...]
    naive_latency_us: float | None = None
    """The same estimate for the problem's naive kernel."""
    speedup: float | None = None
    """Naive over this one."""


class Pitfall(Wire):
    """Something that costs time, seen in the counts."""

    kind: Literal[
        "uncoalesced_access",
        "bank_conflicts",
        "divergence",
        "low_occupancy",
        "spills",
        "hot_atomics",
        "missing_vectorisation",
        "uncovered_tail",
    ]
    kernel: str
    line: int | None
    """Line of the submission's source, from 1; null where it concerns the whole kernel."""
    cost: str
    """In words, with the numbers."""
    weight: float = Field(ge=0, le=1)
    """Share of the plan's expected time that it costs, if the launch is large enough to fill a GPU."""
    remedy: str


class Evidence(Wire):
    """Counts of every launch of the plan at one size."""

    source: Literal["simulator", "ncu"]
    sizes: dict[str, int]
    launches: tuple[LaunchCounts, ...] = ()

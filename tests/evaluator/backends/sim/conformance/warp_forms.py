# ruff: noqa: E501 - a template reads best on one line
"""Forms that reach beyond a lane: memory, atomics, what lanes of a warp do together, barriers, calls and branches.

PTX ISA 9.0, sections 9.7.9 and 9.7.12 to 9.7.14. Each has a result that the PTX ISA determines.
"""

from collections.abc import Iterator

from conformance.forms import PARTIAL, SMALL, WHOLE, Form, expanded

_LOADED = "b8|u8|s8|b16|u16|s16|b32|u32|s32|f32"
_WIDE = "b64|u64|s64|f64"
_SEMANTICS = "|.relaxed.cta|.acquire.gpu|.release.sys|.acq_rel.gpu"
_OPERATIONS = {
    "add": "u32 s32 u64 f32 f64",
    "min": "u32 s32 u64 s64",
    "max": "u32 s32 u64 s64",
    "inc": "u32",
    "dec": "u32",
    "and": "b32 b64",
    "or": "b32 b64",
    "xor": "b32 b64",
    "add.noftz": "f16 f16x2 bf16 bf16x2",
}

LOADS = [
    # Of a register as wide as the type, and of a wider one.
    f"mov.b64 {{d2:b64}}, {{a:b64}}; ld.global.<T={_LOADED}|{_WIDE}> {{d:<T>}}, [{{in}}];",
    "mov.b64 {d2:b64}, {a:b64}; ld.global.<u8|s8|b8|u16|s16> <{d:u32}|{d:b64}>, [{in}+6];",
    "mov.b64 {d2:b64}, {a:b64}; ld.global.<u32|s32|b32> {d:b64}, [{in}+4];",
    "mov.b64 {d2:b64}, {a:b64}; ld.global<.ca|.cg|.cs|.lu|.cv|.nc|.nc.L1::no_allocate.L2::128B|.L1::evict_first|.L1::evict_last|.L1::evict_normal|.L1::evict_unchanged|.L1::no_allocate|.L2::64B|.L2::128B|.L2::256B>.<T=u32|b64> {d:<T>}, [{in}];",
    "mov.b64 {d2:b64}, {a:b64}; ld<.weak|.volatile|.relaxed.cta|.relaxed.gpu|.relaxed.sys|.relaxed.cluster|.acquire.cta|.acquire.gpu|.acquire.sys|.acquire.cluster>.global.<T=u32|b64> {d:<T>}, [{in}];",
    "mov.b64 {d2:b64}, {a:b64}; ld.global.L2::<evict_first|evict_last|evict_normal>.u32 {d:u32}, [{in}];",
    f"mov.b64 {{d2:b64}}, {{a:b64}}; ldu.global.<T={_LOADED}|{_WIDE}> {{d:<T>}}, [{{in}}];",
    "ld.global.v8.b32 {{d:b32}, {d2:b32}, {d3:b32}, {d4:b32}, {d5:b32}, {d6:b32}, {d7:b32}, {d8:b32}}, [{in}];",
    "ld.param::entry.u64 {d:u64}, [inputs]; ld.param.u64 {d2:u64}, [inputs]; sub.u64 {d:u64}, {d:u64}, {d2:u64}; mov.u64 {d2:u64}, 0;",
    "mov.b64 {d2:b64}, {a:b64}; <ld|ldu.global|ld.volatile|ld.relaxed.gpu>.<T=u8|s16|f32|b64> {d:<T>}, [{in}];",
    "mov.b64 {d3:b64}, {a:b64}; mov.b64 {d4:b64}, {b:b64}; <ld.global|ld.global.nc|ldu.global|ld>.v2.<T=u8|s16|b32|f64> {{d:<T>}, {d2:<T>}}, [{in}];",
    "mov.b64 {d5:b64}, {a:b64}; mov.b64 {d6:b64}, {b:b64}; <ld.global|ld.global.nc|ldu.global|ld>.v4.<T=u8|s16|f32> {{d:<T>}, {d2:<T>}, {d3:<T>}, {d4:<T>}}, [{in}];",
    f"st.shared.v2.b64 [{{slot}}], {{{{a:b64}}, {{b:b64}}}}; ld<|.volatile|.relaxed.cta>.shared.<T={_LOADED}|{_WIDE}> {{d:<T>}}, [{{slot}}+8];",
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; ld.shared::cta.v4.b32 {{d:b32}, {d2:b32}, {d3:b32}, {d4:b32}}, [{slot}];",
    f".local .align 16 .b8 local_{{n}}[16]; st.local.v2.b64 [local_{{n}}], {{{{a:b64}}, {{b:b64}}}}; ld.local.<T={_LOADED}|{_WIDE}> {{d:<T>}}, [local_{{n}}+8];",
    "{ .reg .b64 g; and.b64 g, {a:b64}, 28; mov.b64 {b:b64}, conformance_table; add.u64 g, g, {b:b64}; ld.const.<T=u32|u8|s16> {d:<T>}, [g]; }",
    "ld.const.v2.b32 {{d:b32}, {d2:b32}}, [conformance_table+8];",
]
STORES = [
    f"st.global.b64 [{{out}}], {{a:b64}}; st<|.volatile>.global.<T={_LOADED}|{_WIDE}> [{{out}}], {{b:<T>}}; ld.global.b64 {{d:b64}}, [{{out}}];",
    "st.global.b64 [{out}], {a:b64}; st.global<.wb|.cg|.cs|.wt|.L1::evict_first|.L1::evict_last|.L1::evict_normal|.L1::evict_unchanged|.L1::no_allocate|.L2::evict_first|.L2::evict_last|.L2::evict_normal>.<T=u8|u32> [{out}+4], {b:<T>}; ld.global.b64 {d:b64}, [{out}];",
    "st.global.b64 [{out}], {a:b64}; st<.weak|.relaxed.cta|.relaxed.gpu|.relaxed.sys|.relaxed.cluster|.release.cta|.release.gpu|.release.sys|.release.cluster>.global.<T=u16|b64> [{out}], {b:<T>}; ld.global.b64 {d:b64}, [{out}];",
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; st.shared.<T=u8|s16|f32> [{slot}+4], {c:<T>}; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; st.shared.v<2>.<T=u8|s16|f32> [{slot}+8], {{c:<T>}, {e:<T>}}; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];".replace(
        "<2>", "2"
    ),
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; st.shared.v4.<T=u8|s16|f32> [{slot}], {{c:<T>}, {e:<T>}, {f:<T>}, {g:<T>}}; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "st.global.v8.b32 [{out}], {{a:b32}, {b:b32}, {c:b32}, {e:b32}, {f:b32}, {g:b32}, {h:b32}, {i:b32}}; ld.global.b64 {d:b64}, [{out}];",
    "st.shared.v2.b64 [{slot}], {{a:b64}, {b:b64}}; @{p:pred} st.shared.u8 [{slot}+3], {c:u32}; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "{ .reg .b64 g; cvt.u64.u32 g, {slot}; cvta.shared.u64 g, g; st.v2.b64 [g], {{a:b64}, {b:b64}}; ld.v2.b64 {{d:b64}, {d2:b64}}, [g]; }",
]


def _atomics() -> Iterator[str]:
    for operation, kinds in _OPERATIONS.items():
        for t in kinds.split():
            for space, at in (("shared", "{slot}"), ("global", "{out}")):
                prepare = f"st.{space}.b64 [{at}], {{o:b64}}; st.{space}.b{_size(t)} [{at}], {{a:{t}}};"
                look = f"ld.{space}.b64 {{d2:b64{_as(t)}}}, [{at}];"
                yield f"{prepare} atom.{space}.{operation}.{t} {{d:{t}}}, [{at}], {{b:{t}}}; {look}"
                yield f"{prepare} red.{space}.{operation}.{t} [{at}], {{b:{t}}}; {look}"
                yield f"{prepare} @{{p:pred}} red.{space}.{operation}.{t} [{at}], {{b:{t}}}; {look}"
            if t in ("u32", "f32", "b64"):
                yield f"st.global.b{_size(t)} [{{out}}], {{a:{t}}}; atom<.relaxed.cta|.acquire.gpu|.release.sys|.acq_rel.cluster>.global.{operation}.{t} {{d:{t}}}, [{{out}}], {{b:{t}}}; ld.global.b{_size(t)} {{d2:b{_size(t)}@{t}}}, [{{out}}];"
                yield f"st.global.b{_size(t)} [{{out}}], {{a:{t}}}; <red|red.relaxed.gpu>.{operation}.{t} [{{out}}], {{b:{t}}}; ld.global.b{_size(t)} {{d:b{_size(t)}@{t}}}, [{{out}}];"
    for t in ("b32", "b64"):
        for space, at in (("shared", "{slot}"), ("shared::cta", "{slot}"), ("global", "{out}")):
            yield f"st.{space}.{t} [{at}], {{a:{t}}}; atom.{space}.exch.{t} {{d:{t}}}, [{at}], {{b:{t}}}; ld.{space}.{t} {{d2:{t}}}, [{at}];"
    for t in ("b16", "b32", "b64"):
        for space, at in (("shared", "{slot}"), ("global", "{out}")):
            yield f"st.{space}.{t} [{at}], {{a:{t}@few}}; atom.{space}.cas.{t} {{d:{t}}}, [{at}], {{b:{t}@few}}, {{c:{t}}}; ld.{space}.{t} {{d2:{t}}}, [{at}];"
    # Many lanes at one address: what is left does not depend on their order.
    for operation, kinds in (
        ("add", "u32 s32 u64"),
        ("min", "u32 s32 u64 s64"),
        ("max", "u32 s32 u64 s64"),
        ("and", "b32 b64"),
        ("or", "b32 b64"),
        ("xor", "b32 b64"),
    ):
        for t in kinds.split():
            yield f"st.shared.b{_size(t)} [{{tile}}], {{o:{t}@uniform}}; bar.warp.sync -1; red.shared.{operation}.{t} [{{tile}}], {{a:{t}}}; bar.warp.sync -1; ld.shared.b{_size(t)} {{d:{t}}}, [{{tile}}];"
    yield "st.shared.b32 [{tile}], 0; bar.warp.sync -1; red.shared.<inc|dec>.u32 [{tile}], 1000; bar.warp.sync -1; ld.shared.b32 {d:b32}, [{tile}];"
    for t in ("f32",):
        yield f"st.global.v2.b64 [{{out}}], {{{{o:b64}}, {{q:b64}}}}; red.global.add.v2.{t} [{{out}}], {{{{a:{t}}}, {{b:{t}}}}}; ld.global.v2.{t} {{{{d:{t}}}, {{d2:{t}}}}}, [{{out}}];"
        yield f"st.global.v2.b64 [{{out}}], {{{{o:b64}}, {{q:b64}}}}; red.global.add.v4.{t} [{{out}}], {{{{a:{t}}}, {{b:{t}}}, {{c:{t}}}, {{e:{t}}}}}; ld.global.v4.{t} {{{{d:{t}}}, {{d2:{t}}}, {{d3:{t}}}, {{d4:{t}}}}}, [{{out}}];"
        yield f"st.global.v2.b64 [{{out}}], {{{{o:b64}}, {{q:b64}}}}; atom.global.add.v2.{t} {{{{d3:{t}}}, {{d4:{t}}}}}, [{{out}}], {{{{a:{t}}}, {{b:{t}}}}}; ld.global.v2.{t} {{{{d:{t}}}, {{d2:{t}}}}}, [{{out}}];"
    yield "st.global.v2.b64 [{out}], {{o:b64}, {q:b64}}; atom.global.add.v4.f32 {{d5:f32}, {d6:f32}, {d7:f32}, {d8:f32}}, [{out}], {{a:f32}, {b:f32}, {c:f32}, {e:f32}}; ld.global.v4.f32 {{d:f32}, {d2:f32}, {d3:f32}, {d4:f32}}, [{out}];"
    for t in ("f16", "bf16"):
        eight, olds = (", ".join(f"{{{letter}{n}:{t}}}" for n in range(8)) for letter in "ad")
        news = ", ".join(f"{{d{n}:f32@{t}x2}}" for n in range(8, 12))
        prepare = f"st.global.v2.b64 [{{out}}], {{{{o:b64@{t}quad}}, {{q:b64@{t}quad}}}};"
        yield f"{prepare} red.global.add.noftz.v8.{t} [{{out}}], {{{eight}}}; ld.global.v4.f32 {{{news}}}, [{{out}}];"
        yield f"{prepare} atom.global.add.noftz.v8.{t} {{{olds}}}, [{{out}}], {{{eight}}}; ld.global.v4.f32 {{{news}}}, [{{out}}];"
    for t in ("u32", "f16x2"):
        yield f"st.shared.b32 [{{slot}}], {{a:{t}}}; red<.relaxed|.release|.acquire|.acq_rel><.cta|.gpu|.cluster|.sys>.shared::cta.add{'' if t == 'u32' else '.noftz'}.{t} [{{slot}}], {{b:{t}}}; ld.shared.b32 {{d:{t}}}, [{{slot}}];"
    yield "st.global.b16 [{out}], {a:b16}; red.global.or.b16 [{out}], {b:b16}; ld.global.b16 {d:b16}, [{out}];"
    for t in ("f16x2", "bf16x2"):
        yield f"st.global.v2.b64 [{{out}}], {{{{o:b64@{t}}}, {{q:b64}}}}; red.global.add.noftz.v2.{t} [{{out}}], {{{{a:{t}}}, {{b:{t}}}}}; ld.global.v2.b32 {{{{d:{t}}}, {{d2:{t}}}}}, [{{out}}];"


def _size(kind: str) -> int:
    return {"f16x2": 32, "bf16x2": 32, "bf16": 16}.get(kind) or int(kind[1:])


def _as(kind: str) -> str:
    """How the 64 bits around a value of this type are compared: NaN for NaN only where they are that value."""
    return "@f64" if kind == "f64" else f"@low_{kind}" if "f" in kind else ""


TOGETHER = [
    # Every lane that there is; then those of a member mask, behind a guard and behind a branch; then each its own.
    "shfl.sync.<up|down|bfly|idx>.b32 {d:b32}|{d2:pred}, {a:b32}, {b:u32@lane}, {c:b32@clamp}, {m:b32@present};",
    "shfl.sync.<up|down|bfly>.b32 {d:b32}, {a:b32}, <1|2|16>, <0x1f|0x181f|0>, {m:b32@present};",
    "mov.b32 {d:b32}, {o:b32}; mov.pred {d2:pred}, {g:pred}; @{p:pred@member} shfl.sync.<up|down|bfly|idx>.b32 {d:b32}|{d2:pred}, {a:b32}, {b:u32@lane}, {c:b32@clamp}, {m:b32@members};",
    "mov.b32 {d:b32}, {o:b32}; @!{p:pred@member} bra OUT_{n}; shfl.sync.<up|down|bfly|idx>.b32 {d:b32}, {a:b32}, {b:u32@lane}, {c:b32@clamp}, {m:b32@members}; OUT_{n}: bar.warp.sync -1;",
    "shfl.sync.<up|down|bfly|idx>.b32 {d:b32}|{d2:pred}, {a:b32}, {b:u32@lane}, {c:b32@clamp}, {m:b32@parts};",
    "vote.sync.<all|any|uni>.pred {d:pred}, <|!>{a:pred@<pred|warp>}, {m:b32@<present|parts>};",
    "vote.sync.ballot.b32 {d:b32}, <|!>{a:pred}, {m:b32@<present|parts>};",
    "mov.pred {d:pred}, {g:pred}; @{p:pred@member} vote.sync.<all|any|uni>.pred {d:pred}, {a:pred@<pred|warp>}, {m:b32@members};",
    "mov.b32 {d:b32}, {o:b32}; @{p:pred@member} vote.sync.ballot.b32 {d:b32}, {a:pred}, {m:b32@members};",
    "match.any.sync.<T=b32|b64> {d:b32}, {a:<T>@few}, {m:b32@<present|parts>};",
    "match.all.sync.<T=b32|b64> {d:b32}|{d2:pred}, {a:<T>@<few|warp>}, {m:b32@<present|parts>};",
    "mov.b32 {d:b32}, {o:b32}; @{p:pred@member} match.any.sync.<T=b32|b64> {d:b32}, {a:<T>@few}, {m:b32@members};",
    "mov.b32 {d:b32}, {o:b32}; mov.pred {d2:pred}, {g:pred}; @{p:pred@member} match.all.sync.<T=b32|b64> {d:b32}|{d2:pred}, {a:<T>@warp}, {m:b32@members};",
    "redux.sync.<add|min|max>.<T=u32|s32> {d:<T>}, {a:<T>}, {m:b32@<present|parts>};",
    "redux.sync.<and|or|xor>.b32 {d:b32}, {a:b32}, {m:b32@<present|parts>};",
    "mov.b32 {d:b32}, {o:b32}; @{p:pred@member} redux.sync.<add|min|max>.<T=u32|s32> {d:<T>}, {a:<T>}, {m:b32@members};".replace(
        "{d:<T>}", "{d:b32}"
    ),
    "mov.b32 {d:b32}, {o:b32}; @!{p:pred@member} bra OUT_{n}; redux.sync.<and|or|xor>.b32 {d:b32}, {a:b32}, {m:b32@members}; OUT_{n}: bar.warp.sync -1;",
    "elect.sync {d:b32}|{d2:pred}, {m:b32@present};",
    "mov.b32 {d:b32}, {o:b32}; mov.pred {d2:pred}, {g:pred}; @!{p:pred@member} bra OUT_{n}; elect.sync {d:b32}|{d2:pred}, {m:b32@members}; OUT_{n}: bar.warp.sync -1;",
    "activemask.b32 {d:b32};",
    "mov.b32 {d:b32}, {o:b32}; @{p:pred@member} activemask.b32 {d:b32};",
    "mov.b32 {d:b32}, {o:b32}; @!{p:pred} bra OUT_{n}; activemask.b32 {d:b32}; OUT_{n}: bar.warp.sync -1;",
    "{ .reg .b32 x; st.shared.b32 [{slot}], {a:b32}; bar.warp.sync <-1|{m:b32@present}>; and.b32 x, {b:u32}, 15; mad.lo.u32 x, x, 64, {tile}; min.u32 x, x, {slot}; ld.shared.b32 {d:b32}, [x]; bar.warp.sync -1; }",
]
BLOCK = [
    "bar.red.popc.u32 {d:u32}, 0, <|!>{a:pred};",
    "bar<|.cta>.red.<and|or>.pred {d:pred}, 0, {a:pred@<pred|one>};",
    "barrier.cta.red.aligned.popc.u32 {d:u32}, 3, {a:pred};",
    "barrier.red.<and|or>.pred {d:pred}, 1, {a:pred};",
    "{ .reg .b32 x; st.shared.b32 [{slot}], {a:b32}; <bar.sync 0|bar.cta.sync 1|barrier.sync 2|barrier.cta.sync.aligned 3|barrier.sync.aligned 15>; sub.u32 x, {slot}, {first}; xor.b32 x, x, 256; setp.lt.u32 {d2:pred}, x, 1280; add.u32 x, x, {first}; @!{d2:pred} mov.b32 x, {slot}; ld.shared.b32 {d:b32}, [x]; bar.sync 0; }",
]
ONLY_WHOLE = [
    "barrier.cta.arrive.aligned 2, 512; barrier.sync 2, 512; mov.b32 {d:b32}, {a:b32};",
    "bar.red.popc.u32 {d:u32}, 1, 256, {a:pred};",
    "{ .reg .pred w; .reg .b32 x; setp.lt.u32 w, {first}, {slot}; sub.u32 x, {slot}, {first}; setp.lt.u32 w, x, 8192; st.shared.b32 [{slot}], {a:b32}; mov.b32 {d:b32}, {o:b32}; @w bra EARLY_{n}; <B=bar|barrier|bar.cta|barrier.cta>.sync 1, 256; xor.b32 x, x, 8192; add.u32 x, x, {first}; ld.shared.b32 {d:b32}, [x]; bra OUT_{n}; EARLY_{n}: <B>.arrive 1, 256; OUT_{n}: bar.sync 0; }",
]
NOTHING = [
    "<membar.cta|membar.gl|membar.sys|fence.sc.cta|fence.sc.gpu|fence.acq_rel.cta|fence.acq_rel.gpu|fence.acq_rel.sys|fence.acq_rel.cluster|fence.sc.cluster|fence.acquire.gpu|fence.release.gpu|fence.proxy.alias|fence.proxy.async|fence.proxy.async.global|fence.proxy.async.shared::cta|fence.mbarrier_init.release.cluster|nanosleep.u32 20|pmevent 1|pmevent.mask 1|membar.proxy.alias|membar.proxy.async|membar.proxy.async.global|membar.proxy.async.shared::cta|griddepcontrol.wait|griddepcontrol.launch_dependents>; mov.b32 {d:b32}, {a:b32};",
    "prefetch<.L1|.L2|.global.L1|.global.L2|.global.L2::evict_last|.global.L2::evict_normal> [{in}]; mov.b32 {d:b32}, {a:b32};",
    "prefetchu.L1 [{in}]; mov.b32 {d:b32}, {a:b32};",
    "prefetch.local.<L1|L2> [local_{n}]; mov.b32 {d:b32}, {a:b32};".replace(
        "prefetch", ".local .align 16 .b8 local_{n}[16]; prefetch", 1
    ),
    "{ .reg .b64 p; createpolicy.fractional.<L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged>.b64 p, 1.0; ld.global.L2::cache_hint.b64 {d:b64}, [{in}], p; mov.b64 {d2:b64}, {a:b64}; }",
    "{ .reg .b64 p; createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 p, [{in}], 16, 16; ld.global.L2::cache_hint.b64 {d:b64}, [{in}], p; mov.b64 {d2:b64}, {a:b64}; }",
    "{ .reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0; cp.async.ca.shared.global.L2::cache_hint [{slot}], [{in}], 8, p; cp.async.wait_all; ld.shared.b64 {d:b64}, [{slot}]; mov.b64 {d2:b64}, {a:b64}; }",
    "{ .reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0; st.global.L2::cache_hint.b64 [{out}], {a:b64}, p; red.global.add.L2::cache_hint.u64 [{out}], {b:u64}, p; atom.global.add.L2::cache_hint.u64 {d2:u64}, [{out}], {c:u64}, p; ld.global.b64 {d:b64}, [{out}]; }",
]
COPIES = [
    "st.shared.v2.b64 [{slot}], {{o:b64}, {q:b64}}; cp.async.ca.shared<|::cta>.global<|.L2::64B|.L2::128B|.L2::256B> [{slot}], [{in}], <4|8|16>; cp.async.wait_all; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "mov.b64 {d3:b64}, {a:b64}; mov.b64 {d4:b64}, {b:b64}; st.shared.v2.b64 [{slot}], {{o:b64}, {q:b64}}; cp.async.<ca|cg>.shared.global [{slot}], [{in}], 16, {c:u32@size16}; cp.async.commit_group; cp.async.wait_group 0; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "mov.b64 {d3:b64}, {a:b64}; mov.b64 {d4:b64}, {b:b64}; st.shared.v2.b64 [{slot}], {{o:b64}, {q:b64}}; cp.async.ca.shared.global [{slot}], [{in}], 8, {p:pred}; cp.async.wait_all; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "mov.b64 {d3:b64}, {a:b64}; mov.b64 {d4:b64}, {b:b64}; st.shared.v2.b64 [{slot}], {{o:b64}, {q:b64}}; @{p:pred} cp.async.ca.shared.global [{slot}], [{in}], 4; cp.async.wait_all; ld.shared.v2.b64 {{d:b64}, {d2:b64}}, [{slot}];",
    "{ .reg .b64 s; mbarrier.init.shared<|::cta>.b64 [{slot}], 3; mbarrier.arrive.shared.b64 s, [{slot}]; mbarrier.pending_count.b64 {d:b32}, s; mbarrier.test_wait.shared.b64 {d2:pred}, [{slot}], s; mbarrier.arrive.noComplete.shared.b64 _, [{slot}], 1; mbarrier.arrive.shared.b64 _, [{slot}]; mbarrier.<test_wait|try_wait>.shared.b64 {d3:pred}, [{slot}], s; mbarrier.test_wait.parity.shared.b64 {d4:pred}, [{slot}], 0; mbarrier.test_wait.parity.shared.b64 {d5:pred}, [{slot}], 1; mbarrier.inval.shared.b64 [{slot}]; }",
    "{ .reg .b64 s; .reg .b32 c; and.b32 c, {a:u32}, 15; add.u32 c, c, 4; mbarrier.init.shared.b64 [{slot}], c; mbarrier.arrive_drop.shared.b64 s, [{slot}]; mbarrier.pending_count.b64 {d:b32}, s; sub.u32 c, c, 1; mbarrier.arrive.release.cta.shared.b64 s, [{slot}], c; mbarrier.pending_count.b64 {d2:b32}, s; mbarrier.arrive.shared.b64 s, [{slot}]; mbarrier.pending_count.b64 {d3:b32}, s; mbarrier.test_wait.acquire.cta.shared.b64 {d4:pred}, [{slot}], s; mbarrier.inval.shared.b64 [{slot}]; }",
    "{ .reg .b64 s; mbarrier.init.shared.b64 [{slot}], 1; mbarrier.arrive.expect_tx.shared.b64 s, [{slot}], 64; mbarrier.test_wait.shared.b64 {d:pred}, [{slot}], s; mbarrier.complete_tx.shared.b64 [{slot}], 64; mbarrier.test_wait.shared.b64 {d2:pred}, [{slot}], s; mbarrier.expect_tx.relaxed.cta.shared.b64 [{slot}], 8; mbarrier.arrive.shared.b64 s, [{slot}]; mbarrier.try_wait.parity.shared.b64 {d3:pred}, [{slot}], 0; mbarrier.test_wait.shared.b64 {d4:pred}, [{slot}], s; mbarrier.inval.shared.b64 [{slot}]; }",
    "{ .reg .b64 s; mbarrier.init.shared::cta.b64 [{slot}], 4; mbarrier.arrive<S=.relaxed|.release><C=.cta|.cluster>.shared::cta.b64 s, [{slot}]; mbarrier.arrive_drop<S><C>.shared::cta.b64 _, [{slot}]; mbarrier.arrive_drop.noComplete.release.cta.shared::cta.b64 _, [{slot}], 1; mbarrier.pending_count.b64 {d:b32}, s; mbarrier.test_wait<W=.acquire|.relaxed><C>.shared::cta.b64 {d2:pred}, [{slot}], s; mbarrier.arrive.shared::cta.b64 _, [{slot}]; mbarrier.try_wait<W><C>.shared::cta.b64 {d3:pred}, [{slot}], s; mbarrier.inval.shared::cta.b64 [{slot}]; }",
    "{ .reg .b64 s; mbarrier.init.shared::cta.b64 [{slot}], 2; mbarrier.expect_tx.relaxed<C=.cta|.cluster>.shared::cta.b64 [{slot}], 16; mbarrier.arrive_drop.expect_tx<.release|.relaxed><C>.shared::cta.b64 s, [{slot}], 16; mbarrier.complete_tx.relaxed<C>.shared::cta.b64 [{slot}], 32; mbarrier.test_wait.shared.b64 {d:pred}, [{slot}], s; mbarrier.arrive.shared.b64 _, [{slot}]; mbarrier.test_wait.shared.b64 {d2:pred}, [{slot}], s; mbarrier.inval.shared.b64 [{slot}]; }",
    "{ .reg .b64 s; mbarrier.init.shared.b64 [{slot}+32], 2; mbarrier.arrive.shared.b64 s, [{slot}+32]; mov.b64 {d3:b64}, {a:b64}; cp.async.ca.shared.global [{slot}], [{in}], 8; cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{slot}+32]; WAIT_{n}: mbarrier.test_wait.shared.b64 {d2:pred}, [{slot}+32], s; @!{d2:pred} bra WAIT_{n}; ld.shared.b64 {d:b64}, [{slot}]; mbarrier.inval.shared.b64 [{slot}+32]; }",
    "{ .reg .b64 s; mbarrier.init.shared.b64 [{slot}+32], 2; mbarrier.arrive.shared.b64 s, [{slot}+32]; mov.b64 {d3:b64}, {a:b64}; cp.async.ca.shared.global [{slot}], [{in}], 8; cp.async.mbarrier.arrive.noinc.shared.b64 [{slot}+32]; WAIT_{n}: mbarrier.test_wait.shared.b64 {d2:pred}, [{slot}+32], s; @!{d2:pred} bra WAIT_{n}; ld.shared.b64 {d:b64}, [{slot}]; mbarrier.inval.shared.b64 [{slot}+32]; }",
]
SPACES = [
    "{ .reg .b64 g; cvt.u64.u32 g, {slot}; cvta.shared.u64 g, g; isspacep.<global|shared|local> {d:pred}, g; }",
    "isspacep.<global|shared|local|param> {d:pred}, {in};",
    "{ .reg .b64 g; mov.u64 g, conformance_table; cvta.const.u64 g, g; and.b64 {a:b64}, {a:b64}, 28; add.u64 g, g, {a:b64}; ld.u32 {d:u32}, [g]; }",
    "cvta.global {d:u64}, {a:u64};",
    "isspacep.<shared::cta|param::entry> {d:pred}, {in};",
    "{ .reg .b64 g; cvt.u64.u32 g, {slot}; cvta.shared::cta.u64 g, g; isspacep.shared::cta {d:pred}, g; }",
    "{ .reg .b64 g; mov.u64 g, inputs; cvta.param::entry.u64 g, g; isspacep.param::entry {d:pred}, g; ld.u64 {d2:u64}, [g]; ld.param.u64 g, [inputs]; sub.u64 {d2:u64}, {d2:u64}, g; }",
    "{ .reg .b64 p; createpolicy.cvt.L2.b64 p, 0x12f0000000000000; ld.global.L2::cache_hint.b64 {d:b64}, [{in}], p; mov.b64 {d2:b64}, {a:b64}; }",
    "mov.b64 {d2:b64}, {a:b64}; ld.mmio.relaxed.sys.global.<T=u32|u64> {d:<T>}, [{in}];",
    "st.mmio.relaxed.sys.global.b64 [{out}], {a:b64}; ld.global.b64 {d:b64}, [{out}];",
    "{ .reg .b64 s, p; stacksave.u64 s; alloca.u64 p, 16, 16; st.local.b64 [p+8], {a:b64}; ld.local.b64 {d:b64}, [p+8]; and.b64 {d2:b64}, p, 15; stackrestore.u64 s; }",
    "{ .reg .b32 s; .reg .b64 p; stacksave.u32 s; alloca.u64 p, 8; st.local.b64 [p], {a:b64}; ld.local.b64 {d:b64}, [p]; stackrestore.u32 s; }",
    "{ .reg .b64 g; mov.u64 g, inputs; cvta.param.u64 g, g; ld.u64 {d:u64}, [g]; ld.param.u64 g, [inputs]; sub.u64 {d:u64}, {d:u64}, g; }",
    ".local .align 16 .b8 local_{n}[16]; { .reg .b64 g; mov.u64 g, local_{n}; cvta.local.u64 g, g; isspacep.<global|shared|local> {d:pred}, g; }",
    "{ .reg .b64 g; cvt.u64.u32 g, {slot}; cvta.shared.u64 g, g; cvta.to.shared.u64 g, g; cvt.u32.u64 {d:u32}, g; sub.u32 {d:u32}, {d:u32}, {slot}; }",
    "{ .reg .b64 g; cvta.to.global.u64 g, {in}; cvta.global.u64 g, g; sub.u64 {d:u64}, g, {in}; }",
]
CONTROL = [
    "@<|!>{p:pred} bra<|.uni> OUT_{n}; add.u32 {a:u32}, {a:u32}, 7; OUT_{n}: mov.b32 {d:b32}, {a:b32};".replace(
        "<|.uni>", ""
    ),
    "{ .reg .pred q; .reg .b32 i; and.b32 i, {a:u32}, 15; mov.u32 {d:u32}, 0; LOOP_{n}: add.u32 {d:u32}, {d:u32}, i; sub.u32 i, i, 1; setp.ge.s32 q, i, 0; @q bra LOOP_{n}; bra.uni OUT_{n}; OUT_{n}: bar.warp.sync -1; }",
    "{ .reg .b32 i; and.b32 i, {a:u32}, 3; T_{n}: .branchtargets A_{n}, B_{n}, A_{n}, C_{n}; brx.idx<|.uni> i, T_{n}; A_{n}: mov.u32 {d:u32}, 1; bra OUT_{n}; B_{n}: mov.u32 {d:u32}, {b:u32}; bra OUT_{n}; C_{n}: mov.u32 {d:u32}, 3; OUT_{n}: bar.warp.sync -1; }",
    "{ .param .b32 x; .param .b32 y; st.param::func.b32 [x], {a:b32}; call<|.uni> (y), conformance_function, (x); ld.param.b32 {d:b32}, [y]; }",
    "mov.b32 {d:b32}, 5; @{p:pred} { .param .b32 x; .param .b32 y; st.param.b32 [x], {a:b32}; call (y), conformance_function, (x); ld.param.b32 {d:b32}, [y]; }".replace(
        "@{p:pred} {", "@!{p:pred} bra OUT_{n}; {"
    ).replace("[y]; }", "[y]; } OUT_{n}: bar.warp.sync -1;"),
    "{ .reg .b64 f; .param .b32 x; .param .b32 y; mov.u64 f, conformance_function; P_{n}: .callprototype (.param .b32 _) _ (.param .b32 _); st.param.b32 [x], {a:b32}; call (y), f, (x), P_{n}; ld.param.b32 {d:b32}, [y]; }",
]


def warp_forms() -> Iterator[Form]:
    """All of them, those of several lanes also where warps are not whole."""
    alone = [*LOADS, *STORES, *_atomics(), *COPIES, *NOTHING, *SPACES]
    yield from (Form(text) for text in expanded([*alone, *ONLY_WHOLE]))
    several = list(expanded([*TOGETHER, *BLOCK, *CONTROL]))
    for launch in (WHOLE, PARTIAL, SMALL):
        yield from (Form(text, launch) for text in several)

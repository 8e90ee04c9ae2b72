# ruff: noqa: E501 - a template reads best on one line
"""Forms that each lane computes by itself, beyond those that the duel with the interpreter has.

PTX ISA 9.0, sections 9.7.1 to 9.7.9 and 9.7.15. What the simulator does not know yet is here too.
"""

from collections.abc import Iterator

import test_instructions
from conformance.forms import Form, expanded, guarded

_INTEGERS = "u16|s16|u32|s32|u64|s64"
_ALL = f"b16|b32|b64|{_INTEGERS}|f32|f64"
_ORDERED = "eq|ne|lt|le|gt|ge"
_FLOAT_COMPARISONS = f"{_ORDERED}|equ|neu|ltu|leu|gtu|geu|num|nan"
_ROUND = "rn|rz|rm|rp"
_WHOLE = "rni|rzi|rmi|rpi"

INTEGERS = [
    "<add|sub>.sat.s32 {d:s32}, {a:s32}, {b:s32};",
    "mad.hi.sat.s32 {d:s32}, {a:s32}, {b:s32}, {c:s32};",
    "mul24.<lo|hi>.<T=u32|s32> {d:<T>}, {a:<T>}, {b:<T>};",
    "mad24.<lo|hi>.<T=u32|s32> {d:<T>}, {a:<T>}, {b:<T>}, {c:<T>};",
    "mad24.hi.sat.s32 {d:s32}, {a:s32}, {b:s32}, {c:s32};",
    f"sad.<T={_INTEGERS}> {{d:<T>}}, {{a:<T>}}, {{b:<T>}}, {{c:<T>}};",
    "<add|min|max>.<T=u16x2|s16x2> {d:<T>}, {a:<T>}, {b:<T>};",
    "<min|max>.relu.<T=s16x2|s32> {d:<T>}, {a:<T>}, {b:<T>};",
    "szext.<clamp|wrap>.<T=u32|s32> {d:<T>}, {a:<T>}, {b:u32};",
    "prmt.b32.<f4e|b4e|rc8|ecl|ecr|rc16> {d:b32}, {a:b32}, {b:b32}, {c:b32};",
    "lop3.<and|or>.b32 {d:b32}|{d2:pred}, {a:b32}, {b:b32}, {c:b32}, <0x96|0xE8|0x80>, <|!>{e:pred};",
    "shf.<l|r>.<wrap|clamp>.b32 {d:b32}, {a:b32}, {b:b32}, <0|7|31|32|45>;",
    "<neg|abs>.<T=s16|s32|s64|u16|u32|u64> {d:<T>}, {a:<T>};",
    "shr.<T=b16|b32|b64> {d:<T>}, {a:<T>}, {b:u32};",
    "cvt.pack.sat.<T=u16|s16>.s32 {d:b32}, {a:s32}, {b:s32};",
    "cvt.pack.sat.<u8|s8|u4|s4|u2|s2>.s32.b32 {d:b32}, {a:s32}, {b:s32}, {c:b32};",
    f"mul.lo.<T={_INTEGERS}> {{d:<T>}}, {{a:<T>}}, <0|1|10>;",
]
_VIDEO = "vadd|vsub|vabsdiff|vmin|vmax"
VIDEO = [
    f"<{_VIDEO}>.<u32|s32>.<u32|s32>.<u32|s32><|.sat> {{d:b32}}, {{a:b32}}, {{b:b32}};",
    f"<{_VIDEO}>.<u32|s32>.<u32|s32>.<u32|s32> {{d:b32}}, {{a:b32}}<.b1|.h1>, {{b:b32}}<.b3|.h0>;",
    f"<{_VIDEO}>.s32.u32.s32.<add|min|max> {{d:b32}}, {{a:b32}}, {{b:b32}}.b0, {{c:b32}};",
    f"<{_VIDEO}>.u32.u32.u32.sat {{d:b32}}.<b2|h1>, {{a:b32}}.b0, {{b:b32}}.b1, {{c:b32}};",
    "<vshl|vshr>.<u32|s32>.<u32|s32>.u32<|.sat>.<clamp|wrap> {d:b32}, {a:b32}, {b:b32};",
    "vshr.<D=u32|s32>.<D>.u32.clamp.<min|max|add> {d:b32}, {a:b32}, {b:b32}, {c:b32};",
    "vmad.<u32|s32>.<u32|s32>.<u32|s32><|.sat><|.shr7|.shr15> {d:b32}, {a:b32}.<b0|h1>, {b:b32}.<b2|h0>, {c:b32};",
    f"vset.<u32|s32>.<u32|s32>.<{_ORDERED}> {{d:b32}}, {{a:b32}}<|.b1>, {{b:b32}};",
    "<vadd|vsub|vavrg|vabsdiff|vmin|vmax><2|4>.<u32|s32>.<u32|s32>.<u32|s32><|.sat|.add> {d:b32}, {a:b32}, {b:b32}, {c:b32};",
    "<vadd|vsub|vmin>2.u32.u32.u32 {d:b32}.<h0|h10>, {a:b32}.h01, {b:b32}.h32, {c:b32};",
    "<vadd|vsub|vmax>4.s32.s32.s32 {d:b32}.<b0|b210>, {a:b32}.b0123, {b:b32}.b7654, {c:b32};",
    f"vset<2|4>.<u32|s32>.<u32|s32>.<{_ORDERED}><|.add> {{d:b32}}, {{a:b32}}, {{b:b32}}, {{c:b32}};",
]
FLOATS = [
    "<add|sub|mul><|.rn><|.ftz><|.sat>.<T=f16|f16x2> {d:<T>}, {a:<T>}, {b:<T>};",
    "<add|sub|mul><|.rn>.<T=bf16|bf16x2> {d:<T>}, {a:<T>}, {b:<T>};",
    "fma.rn<|.ftz><|.sat|.relu>.<T=f16|f16x2> {d:<T>}, {a:<T>}, {b:<T>}, {c:<T>};",
    "fma.rn<|.oob><|.relu>.<T=bf16|bf16x2> {d:<T>}, {a:<T>}, {b:<T>}, {c:<T>};",
    "fma.rn.oob<|.relu>.<T=f16|f16x2> {d:<T>}, {a:<T>}, {b:<T>}, {c:<T>};",
    "<neg|abs><|.ftz>.<T=f16|f16x2|f32> {d:<T>}, {a:<T>};",
    "<neg|abs>.<T=bf16|bf16x2|f64> {d:<T>}, {a:<T>};",
    "<min|max><|.ftz><|.NaN><|.xorsign.abs>.<T=f16|f16x2|f32> {d:<T>}, {a:<T>}, {b:<T>};",
    "<min|max><|.NaN><|.xorsign.abs>.<T=bf16|bf16x2> {d:<T>}, {a:<T>}, {b:<T>};",
    "tanh.approx.<T=f32|f16|f16x2|bf16|bf16x2> {d:<T>}, {a:<T>};",
    "ex2.approx.<T=f16|f16x2> {d:<T>}, {a:<T>};",
    "ex2.approx.ftz.<T=bf16|bf16x2> {d:<T>}, {a:<T>};",
    "<rcp|rsqrt>.approx.ftz.f64 {d:f64}, {a:f64};",
    "rsqrt.approx.f64 {d:f64}, {a:f64};",
    "<div.approx|div.full><|.ftz>.f32 {d:f32}, {a:f32}, {b:f32};",
    "<sqrt|rsqrt|rcp|ex2|lg2|sin|cos>.approx<|.ftz>.f32 {d:f32}, {a:f32};",
    "<sin|cos>.approx.f32 {d:f32}, {a:f32@angle};",
    "<ex2|lg2|rcp|rsqrt|sqrt>.approx.f32 {d:f32}, {a:f32@normal};",
    f"mad.<{_ROUND}><|.ftz><|.sat>.f32 {{d:f32}}, {{a:f32}}, {{b:f32}}, {{c:f32}};",
    f"mad.<{_ROUND}>.f64 {{d:f64}}, {{a:f64}}, {{b:f64}}, {{c:f64}};",
    "<add|sub|mul><|.ftz><|.sat>.f32 {d:f32}, {a:f32}, {b:f32};",
    "<add|sub|mul>.f64 {d:f64}, {a:f64}, {b:f64};",
    "fma.rn.f32 {d:f32}, {a:f32@normal}, {b:f32@normal}, {c:f32@normal};",
    "fma.rn.f64 {d:f64}, {a:f64@normal}, {b:f64@normal}, {c:f64@normal};",
    "div.rn.<T=f32|f64> {d:<T>}, {a:<T>@normal}, {b:<T>@normal};",
    "copysign.<T=f32|f64> {d:<T>}, {a:<T>}, {b:<T>};",
    # Results next to the smallest normal number, above and below, before and after they are rounded.
    f"mul.<{_ROUND}><|.ftz>.f32 {{d:f32}}, {{a:f32@normal}}, {{b:f32@balance}};",
    f"div.<{_ROUND}><|.ftz>.f32 {{d:f32}}, {{a:f32@normal}}, {{b:f32@over}};",
    f"fma.<{_ROUND}><|.ftz>.f32 {{d:f32}}, {{a:f32@normal}}, {{b:f32@balance}}, {{c:f32@least}};",
    f"rcp.<{_ROUND}><|.ftz>.f32 {{d:f32}}, {{a:f32@large}};",
    f"cvt.<{_ROUND}><|.ftz>.f32.f64 {{d:f32}}, {{a:f64@edge}};",
    "mul<|.ftz>.f16 {d:f16}, {a:f16@normal}, {b:f16@balance};",
    "fma.rn<|.ftz>.f16 {d:f16}, {a:f16@normal}, {b:f16@balance}, {c:f16@least};",
    "div.full.ftz.f32 {d:f32}, {a:f32@normal}, {b:f32@over};",
]
COMPARISONS = [
    f"setp.<{_FLOAT_COMPARISONS}><|.ftz>.f16 {{d:pred}}, {{a:f16}}, {{b:f16}};",
    f"setp.<{_FLOAT_COMPARISONS}><|.ftz>.f16x2 {{d:pred}}|{{d2:pred}}, {{a:f16x2}}, {{b:f16x2}};",
    f"setp.<{_FLOAT_COMPARISONS}>.bf16 {{d:pred}}, {{a:bf16}}, {{b:bf16}};",
    f"setp.<{_FLOAT_COMPARISONS}>.bf16x2 {{d:pred}}|{{d2:pred}}, {{a:bf16x2}}, {{b:bf16x2}};",
    f"setp.<{_FLOAT_COMPARISONS}><|.ftz>.f32 {{d:pred}}|{{d2:pred}}, {{a:f32}}, {{b:f32}};",
    f"setp.<lt|ge|ne>.<and|or|xor>.<T={_INTEGERS}|f32|f64> {{d:pred}}|{{d2:pred}}, {{a:<T>}}, {{b:<T>}}, <|!>{{c:pred}};",
    "setp.<eq|ne>.<and|or|xor>.<T=b16|b32|b64> {d:pred}|{d2:pred}, {a:<T>}, {b:<T>}, <|!>{c:pred};",
    "setp.<ltu|geu|nan|num>.<and|or|xor>.<T=f16|bf16> {d:pred}, {a:<T>}, {b:<T>}, {c:pred};",
    "setp.<ltu|geu|nan|num>.<and|or|xor>.<T=f32|f64> {d:pred}|{d2:pred}, {a:<T>}, {b:<T>}, {c:pred};",
    "setp.<lt|neu>.<and|or|xor>.<T=f16x2|bf16x2> {d:pred}|{d2:pred}, {a:<T>}, {b:<T>}, {c:pred};",
    f"set.<{_ORDERED}>.<D=u32|s32|f32>.<T={_INTEGERS}> {{d:<D>}}, {{a:<T>}}, {{b:<T>}};",
    "set.<lo|ls|hi|hs>.<D=u32|f32>.<T=u16|u32|u64> {d:<D>}, {a:<T>}, {b:<T>};",
    "set.<eq|ne>.<D=u32|s32|f32>.<T=b16|b32|b64> {d:<D>}, {a:<T>}, {b:<T>};",
    f"set.<{_FLOAT_COMPARISONS}>.<D=u32|s32|f32>.<T=f32|f64> {{d:<D>}}, {{a:<T>}}, {{b:<T>}};",
    f"set.<{_FLOAT_COMPARISONS}>.ftz.u32.f32 {{d:u32}}, {{a:f32}}, {{b:f32}};",
    "set.lt.<and|or|xor>.<D=u32|s32|f32>.<T=s32|u16|u64|f32|f64> {d:<D>}, {a:<T>}, {b:<T>}, <|!>{c:pred};",
    f"set.<{_FLOAT_COMPARISONS}>.<D=f16|u16|s16|u32|s32>.f16 {{d:<D>}}, {{a:f16}}, {{b:f16}};",
    f"set.<{_FLOAT_COMPARISONS}>.<D=bf16|u16|s16|u32|s32>.bf16 {{d:<D>}}, {{a:bf16}}, {{b:bf16}};",
    f"set.<{_FLOAT_COMPARISONS}>.f16x2.f16x2 {{d:f16x2}}, {{a:f16x2}}, {{b:f16x2}};",
    f"set.<{_FLOAT_COMPARISONS}>.bf16x2.bf16x2 {{d:bf16x2}}, {{a:bf16x2}}, {{b:bf16x2}};",
    "set.<lt|geu>.<and|or|xor>.f16x2.f16x2 {d:f16x2}, {a:f16x2}, {b:f16x2}, {c:pred};",
    "set.<lt|ge>.<D=f16|bf16>.<T=s32|u64|f32|f64> {d:<D>}, {a:<T>}, {b:<T>};",
    f"selp.<T={_ALL}> {{d:<T>}}, {{a:<T>}}, {{b:<T>}}, <|!>{{c:pred}};",
    f"slct.<T={_ALL}>.s32 {{d:<T>}}, {{a:<T>}}, {{b:<T>}}, {{c:s32}};",
    f"slct<|.ftz>.<T={_ALL}>.f32 {{d:<T>}}, {{a:<T>}}, {{b:<T>}}, {{c:f32}};",
]
_SOURCES = f"u8|s8|{_INTEGERS}"
CONVERSIONS = [
    f"cvt<|.sat>.<T={_SOURCES}>.<T> {{d:<T>}}, {{a:<T>}};",
    f"cvt.<{_ROUND}><|.sat>.<D=f16|f32|f64>.<S={_SOURCES}> {{d:<D>}}, {{a:<S>}};",
    f"cvt.<{_ROUND}>.bf16.<S={_SOURCES}> {{d:bf16}}, {{a:<S>}};",
    f"cvt.<{_WHOLE}><|.sat>.<D={_SOURCES}>.<S=f16|bf16|f32|f64> {{d:<D>}}, {{a:<S>}};",
    f"cvt.<{_WHOLE}>.ftz.<D={_SOURCES}>.f32 {{d:<D>}}, {{a:f32}};",
    f"cvt.<{_ROUND}><|.ftz><|.sat>.f16.f32 {{d:f16}}, {{a:f32}};",
    f"cvt.<{_ROUND}><|.sat>.f16.f64 {{d:f16}}, {{a:f64}};",
    f"cvt.<{_ROUND}><|.ftz><|.sat>.f32.f64 {{d:f32}}, {{a:f64}};",
    f"cvt.<{_ROUND}>.bf16.<S=f16|f32|f64> {{d:bf16}}, {{a:<S>}};",
    f"cvt.<{_ROUND}>.f16.bf16 {{d:f16}}, {{a:bf16}};",
    "cvt<|.ftz><|.sat>.f32.<S=f16|f32> {d:f32}, {a:<S>};",
    "cvt<|.sat>.f64.<S=f16|f64> {d:f64}, {a:<S>};",
    "cvt<|.ftz><|.sat>.f64.f32 {d:f64}, {a:f32};",
    "cvt<|.sat>.f16.f16 {d:f16}, {a:f16};",
    "cvt.<D=f32|f64>.bf16 {d:<D>}, {a:bf16};",
    f"cvt.<{_WHOLE}><|.ftz><|.sat>.f32.f32 {{d:f32}}, {{a:f32}};",
    f"cvt.<{_WHOLE}><|.sat>.<T=f16|f64>.<T> {{d:<T>}}, {{a:<T>}};",
    f"cvt.<{_WHOLE}>.bf16.bf16 {{d:bf16}}, {{a:bf16}};",
    "cvt.<rn|rz><|.relu><|.satfinite>.<D=f16|bf16>.f32 {d:<D>}, {a:f32};",
    "cvt.<rn|rz><|.relu><|.satfinite>.<D=f16x2|bf16x2>.f32 {d:<D>}, {a:f32}, {b:f32};",
    "cvt.rna<|.satfinite>.tf32.f32 {d:b32@f32}, {a:f32};",
    "cvt.<rn|rz><|.relu>.tf32.f32 {d:b32@f32}, {a:f32};",
    "cvt.rn.satfinite<|.relu>.<e4m3x2|e5m2x2>.f32 {d:b16}, {a:f32@small}, {b:f32};",
    "cvt.rn.satfinite<|.relu>.<e4m3x2|e5m2x2>.f16x2 {d:b16}, {a:f16x2};",
    "cvt.rn<|.relu>.f16x2.<e4m3x2|e5m2x2> {d:f16x2}, {a:b16};",
    f"mov.<T={_ALL}> {{d:<T>}}, {{a:<T>}};",
    "cvt.f32.<tf32|bf16x2> {d:f32}, {a:b32};",
    "mov.pred {d:pred}, {a:pred};",
    "mov.u32 {d:u32}, <%laneid|%lanemask_eq|%lanemask_lt|%lanemask_le|%lanemask_gt|%lanemask_ge|%tid.x|%ntid.x|%ctaid.x|%nctaid.x|WARP_SZ>;",
]
TEMPLATES = [*INTEGERS, *VIDEO, *FLOATS, *COMPARISONS, *CONVERSIONS]


def lane_forms() -> Iterator[Form]:
    """Those above, those of the duel, and some of each opcode again behind a guard."""
    duel = [case for family in test_instructions.FAMILIES.values() for case in family()]
    forms = [Form(text) for text in expanded([*TEMPLATES, *duel])]
    yield from forms
    yield from guarded(forms)

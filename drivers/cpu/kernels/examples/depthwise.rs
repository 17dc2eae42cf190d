//! Prints GMAC/s of integer depthwise convolutions and their share of the core's `vpmaddubsw` chain, measured in the same run:
//! `cargo run --release -p ottava-kernels --example depthwise [isa] [threads] [name]`.

use std::time::Instant;

use ottava_kernels::{
    ConvShape, ConvU8, Epilogue, Exec, Isa, KernelError, OutMut, OutQ, ThreadPool, WeightData, WeightLayout, Weights,
};

fn square(hw: usize, c: usize, k: usize, stride: usize, pad: usize) -> ConvShape {
    ConvShape {
        in_h: hw,
        in_w: hw,
        in_c: c,
        out_c: c,
        kernel: [k; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pads: [pad; 4],
        groups: c,
    }
}

/// The depthwise layers of small and middle-sized networks, channel counts that no block divides, and unpadded images.
fn cases() -> Vec<ConvShape> {
    vec![
        square(112, 32, 3, 1, 1),
        square(56, 96, 3, 1, 1),
        square(56, 96, 3, 1, 0),
        square(56, 144, 3, 2, 1),
        square(28, 192, 3, 1, 1),
        square(28, 97, 3, 1, 1),
        square(14, 384, 3, 1, 1),
        square(14, 384, 3, 1, 0),
        square(14, 576, 3, 2, 1),
        square(7, 960, 3, 1, 1),
        square(25, 64, 3, 1, 1),
        square(14, 240, 5, 1, 2),
        square(28, 72, 5, 2, 2),
        square(14, 33, 3, 1, 1),
        square(56, 3, 3, 1, 1),
    ]
}

/// Best time of a call over about a fifth of a second.
fn best_of(mut f: impl FnMut()) -> f64 {
    let (start, mut best) = (Instant::now(), f64::MAX);
    while start.elapsed().as_secs_f64() < 0.2 {
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64());
    }
    best
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let isa = args.next().map_or(Ok(Isa::detect()), |name| Isa::parse(&name))?;
    let pool = ThreadPool::new(args.next().map_or(Ok(1), |n| n.parse())?)?;
    let only = args.next().unwrap_or_default();
    let ceiling = ceiling();
    println!("{} with {} thread(s), GMAC/s; one core's vpmaddubsw chain: {ceiling:.1}", isa.name(), pool.threads());
    for shape in cases() {
        let (k, s, c, hw, pad) = (shape.kernel[0], shape.stride[0], shape.in_c, shape.in_h, shape.pads[0]);
        let name = format!("{k}x{k}/{s} {c} {hw} pad {pad}");
        if name.contains(&only) {
            let rate = rate(Exec { isa, pool: &pool }, shape)?;
            println!("{name:20} {rate:6.1}  {:.2}", rate / ceiling);
        }
    }
    Ok(())
}

fn rate(exec: Exec<'_>, shape: ConvShape) -> Result<f64, KernelError> {
    let n_weights = shape.kernel[0] * shape.kernel[1] * shape.out_c;
    let w: Vec<i8> = (0..n_weights).map(|i| ((i * 7919) >> 2) as i8).collect();
    let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::Hwio, zero_points: &[] };
    let plan = ConvU8::new(shape, &spec, 128, None, Epilogue::Requant { m: vec![1e-3], out: OutQ::u8(128) })?;
    let x: Vec<u8> = (0..shape.in_h * shape.in_w * shape.in_c).map(|i| ((i * 7919) >> 3) as u8).collect();
    let mut out = vec![0u8; shape.out_hw()?.iter().product::<usize>() * shape.out_c];
    let mut scratch = vec![0u8; plan.scratch_len()];
    let mut result = Ok(());
    let seconds = best_of(|| result = plan.run(exec, &x, None, OutMut::Bytes(&mut out), &mut scratch));
    result.map(|()| plan.macs() as f64 / seconds / 1e9)
}

/// GMAC/s of `vpmaddubsw`, `vpmaddwd`, `vpaddd` on registers: eight chains of 32 multiply-adds per step.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // a measurement of the machine's instructions
fn ceiling() -> f64 {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return f64::NAN;
    }
    const STEPS: u32 = 20_000;
    // SAFETY: AVX2 was detected just now.
    let seconds = best_of(|| unsafe { chain(STEPS) });
    f64::from(STEPS) * 8.0 * 32.0 / seconds / 1e9
}

#[cfg(not(target_arch = "x86_64"))]
fn ceiling() -> f64 {
    f64::NAN
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)] // as above
#[target_feature(enable = "avx2")]
fn chain(steps: u32) {
    // SAFETY: the instructions touch only the named registers.
    unsafe {
        core::arch::asm!(
            "2:",
            "vpmaddubsw ymm0, ymm14, ymm15", "vpmaddwd ymm0, ymm0, ymm15", "vpaddd ymm8, ymm8, ymm0",
            "vpmaddubsw ymm1, ymm14, ymm15", "vpmaddwd ymm1, ymm1, ymm15", "vpaddd ymm9, ymm9, ymm1",
            "vpmaddubsw ymm2, ymm14, ymm15", "vpmaddwd ymm2, ymm2, ymm15", "vpaddd ymm10, ymm10, ymm2",
            "vpmaddubsw ymm3, ymm14, ymm15", "vpmaddwd ymm3, ymm3, ymm15", "vpaddd ymm11, ymm11, ymm3",
            "vpmaddubsw ymm4, ymm14, ymm15", "vpmaddwd ymm4, ymm4, ymm15", "vpaddd ymm8, ymm8, ymm4",
            "vpmaddubsw ymm5, ymm14, ymm15", "vpmaddwd ymm5, ymm5, ymm15", "vpaddd ymm9, ymm9, ymm5",
            "vpmaddubsw ymm6, ymm14, ymm15", "vpmaddwd ymm6, ymm6, ymm15", "vpaddd ymm10, ymm10, ymm6",
            "vpmaddubsw ymm7, ymm14, ymm15", "vpmaddwd ymm7, ymm7, ymm15", "vpaddd ymm11, ymm11, ymm7",
            "dec {n:e}",
            "jnz 2b",
            n = inout(reg) steps => _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
            out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            options(nomem, nostack),
        );
    }
}

//! Prints GMAC/s of the convolution kernels on a few shapes: `cargo run --release -p ottava-kernels --example peak [isa] [threads] [name]`.

use std::time::Instant;

use ottava_kernels::{
    ConvF32, ConvShape, ConvU8, Epilogue, Exec, Isa, KernelError, OutMut, OutQ, ThreadPool, WeightData, WeightLayout,
    Weights,
};

/// Rows, and the shape they run through.
type Case = (&'static str, usize, ConvShape);

fn square(name: &'static str, hw: usize, c: usize, out_c: usize, k: usize, stride: usize, groups: usize) -> Case {
    let pad = k / 2;
    let shape = ConvShape {
        in_h: hw,
        in_w: hw,
        in_c: c,
        out_c,
        kernel: [k; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pads: [pad; 4],
        groups,
    };
    (name, 1, shape)
}

fn cases() -> Vec<Case> {
    vec![
        ("matmul 128x768x3072", 128, ConvShape::gemm(768, 3072)),
        ("matmul 1x1024x1000", 1, ConvShape::gemm(1024, 1000)),
        square("conv 1x1 256->256 28", 28, 256, 256, 1, 1, 1),
        square("conv 1x1 64->256 56", 56, 64, 256, 1, 1, 1),
        square("conv 3x3 64->64 56", 56, 64, 64, 3, 1, 1),
        square("conv 3x3 128->128 28", 28, 128, 128, 3, 1, 1),
        square("conv 3x3 512->512 7", 7, 512, 512, 3, 1, 1),
        square("stem 7x7 3->64 224", 224, 3, 64, 7, 2, 1),
        square("conv 3x3 16->16 32", 32, 16, 16, 3, 1, 1),
        square("depthwise 3x3 96 56", 56, 96, 96, 3, 1, 96),
        square("depthwise 3x3 384 14", 14, 384, 384, 3, 1, 384),
        square("depthwise 5x5 240 14", 14, 240, 240, 5, 1, 240),
    ]
}

/// Bell-shaped values in s8, as trained weights are.
fn weights(n: usize, seed: &mut u64) -> Vec<i8> {
    let mut next = || {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        (*seed >> 40) as i32 & 63
    };
    (0..n).map(|_| ((0..6).map(|_| next()).sum::<i32>() - 189).clamp(-127, 127) as i8).collect()
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
    let mut seed = 0x9E37_79B9_7F4A_7C15;
    println!("{} with {} thread(s), GMAC/s", isa.name(), pool.threads());
    for (name, batch, shape) in cases().into_iter().filter(|c| c.0.contains(&only)) {
        let exec = Exec { isa, pool: &pool };
        let macs = (batch * shape.out_hw()?.iter().product::<usize>() * shape.out_c) as f64 * filter_len(&shape) as f64;
        let (integer, packing) = time_u8(exec, batch, shape, &mut seed)?;
        let float = time_f32(exec, batch, shape)?;
        println!(
            "{name:24} u8 {:6.1}   f32 {:6.1}   (packed in {packing:.1} ms)",
            macs / integer / 1e9,
            macs / float / 1e9
        );
    }
    Ok(())
}

/// Weights per output channel.
fn filter_len(shape: &ConvShape) -> usize {
    shape.kernel[0] * shape.kernel[1] * shape.in_c / shape.groups
}

/// Seconds per call, and milliseconds of packing.
fn time_u8(exec: Exec<'_>, batch: usize, shape: ConvShape, seed: &mut u64) -> Result<(f64, f64), KernelError> {
    let w = weights(filter_len(&shape) * shape.out_c, seed);
    let spec = Weights { data: WeightData::S8(&w), layout: WeightLayout::Hwio, zero_points: &[] };
    let packing = Instant::now();
    let plan = ConvU8::new(shape, &spec, 128, None, Epilogue::Requant { m: vec![1e-4], out: OutQ::u8(128) })?;
    let packing = packing.elapsed().as_secs_f64() * 1e3;
    let x: Vec<u8> = (0..batch * shape.in_h * shape.in_w * shape.in_c).map(|i| ((i * 7919) >> 3) as u8).collect();
    let mut out = vec![0u8; batch * shape.out_hw()?.iter().product::<usize>() * shape.out_c];
    let mut scratch = vec![0u8; plan.scratch_len()];
    let mut result = Ok(());
    let seconds = best_of(|| result = plan.run(exec, &x, None, OutMut::Bytes(&mut out), &mut scratch));
    result.map(|()| (seconds, packing))
}

/// Seconds per call.
fn time_f32(exec: Exec<'_>, batch: usize, shape: ConvShape) -> Result<f64, KernelError> {
    let w: Vec<f32> = (0..filter_len(&shape) * shape.out_c).map(|i| (i % 17) as f32 * 0.01).collect();
    let plan = ConvF32::new(shape, &w, WeightLayout::Hwio, None, 0.0, f32::INFINITY)?;
    let x: Vec<f32> = (0..batch * shape.in_h * shape.in_w * shape.in_c).map(|i| (i % 23) as f32).collect();
    let mut out = vec![0f32; batch * shape.out_hw()?.iter().product::<usize>() * shape.out_c];
    let mut result = Ok(());
    let seconds = best_of(|| result = plan.run(exec, &x, &mut out));
    result.map(|()| seconds)
}

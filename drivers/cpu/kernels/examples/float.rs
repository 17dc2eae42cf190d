//! Prints GFMA/s of the f32 kernels and their share of the core's FMA ceiling, measured in the same run:
//! `cargo run --release -p ottava-kernels --example float [isa] [name]`. One thread; slices of the CPU's own time, best of many.
#![allow(unsafe_code)] // the clock of a thread's CPU time, and the ceiling's registers

use std::time::{Duration, Instant};

use ottava_kernels::{ConvF32, ConvShape, Exec, FloatWeights, Isa, KernelError, MatMulF32, ThreadPool, WeightLayout};

/// Rows, and the shape they run through.
type Case = (&'static str, usize, ConvShape);

fn square(name: &'static str, hw: usize, c: usize, out_c: usize, k: usize, stride: usize, groups: usize) -> Case {
    let shape = ConvShape {
        in_h: hw,
        in_w: hw,
        kernel: [k; 2],
        stride: [stride; 2],
        pads: [k / 2; 4],
        groups,
        ..ConvShape::gemm(c, out_c)
    };
    (name, 1, shape)
}

fn cases() -> Vec<Case> {
    vec![
        ("matmul 126x768x768", 126, ConvShape::gemm(768, 768)),
        ("matmul 24x768x3072", 24, ConvShape::gemm(768, 3072)),
        ("matmul 24x3072x768", 24, ConvShape::gemm(3072, 768)),
        ("matmul 1x1280x1000", 1, ConvShape::gemm(1280, 1000)),
        square("conv 1x1 256->256 14", 14, 256, 256, 1, 1, 1),
        square("conv 1x1 1024->256 14", 14, 1024, 256, 1, 1, 1),
        square("conv 1x1 64->256 28", 28, 64, 256, 1, 1, 1),
        square("conv 1x1 16->96 56", 56, 16, 96, 1, 1, 1),
        square("conv 1x1 144->24 28", 28, 144, 24, 1, 1, 1),
        square("conv 1x1 512->512 7", 7, 512, 512, 1, 1, 1),
        square("conv 3x3 64->64 28", 28, 64, 64, 3, 1, 1),
        square("conv 3x3 128->128 14", 14, 128, 128, 3, 1, 1),
        square("conv 3x3 256->256 7", 7, 256, 256, 3, 1, 1),
        square("stem 7x7 3->64 112", 112, 3, 64, 7, 2, 1),
        square("conv 3x3 3->32 112", 112, 3, 32, 3, 2, 1),
        square("conv 3x3 16->16 32", 32, 16, 16, 3, 1, 1),
        square("depthwise 3x3 96 56", 56, 96, 96, 3, 1, 96),
        square("depthwise 3x3 96 56/2", 56, 96, 96, 3, 2, 96),
        square("depthwise 3x3 384 14", 14, 384, 384, 3, 1, 384),
        square("depthwise 5x5 240 14", 14, 240, 240, 5, 1, 240),
    ]
}

/// CPU time that this thread has used.
#[cfg(target_os = "linux")]
fn cpu_time() -> Option<Duration> {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }
    const THREAD_CPU: i32 = 3;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is writable and has the layout of a 64-bit `timespec`.
    let failed = unsafe { clock_gettime(THREAD_CPU, &mut time) };
    (failed == 0).then(|| Duration::new(time.seconds as u64, time.nanoseconds as u32))
}

#[cfg(not(target_os = "linux"))]
fn cpu_time() -> Option<Duration> {
    None
}

/// Best seconds of a call over about a third of a second; what else runs on the machine hardly counts.
fn best_of(mut f: impl FnMut()) -> f64 {
    let (begin, mut best, mut n) = (Instant::now(), f64::MAX, 0);
    while n < 5 || begin.elapsed().as_secs_f64() < 0.3 {
        let (wall, cpu) = (Instant::now(), cpu_time());
        f();
        let wall = wall.elapsed();
        let own = cpu.and_then(|from| Some(cpu_time()? - from)).unwrap_or(wall);
        best = best.min(wall.min(own).as_secs_f64());
        n += 1;
    }
    best
}

/// Multiply-adds per second of FMAs on registers.
#[cfg(target_arch = "x86_64")]
fn ceiling() -> Option<f64> {
    use core::arch::x86_64::*;
    const STEPS: usize = 20_000;
    #[target_feature(enable = "avx2,fma")]
    fn chain(x: f32) -> f32 {
        let (x, mut acc) = (_mm256_set1_ps(x), [_mm256_setzero_ps(); 12]);
        for _ in 0..STEPS {
            for a in &mut acc {
                *a = _mm256_fmadd_ps(x, x, *a);
            }
        }
        acc.into_iter().map(|a| _mm256_cvtss_f32(a)).sum()
    }
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        return None;
    }
    // SAFETY: the features were just detected.
    let seconds = best_of(|| _ = std::hint::black_box(unsafe { chain(std::hint::black_box(1e-3)) }));
    Some((STEPS * 12 * 8) as f64 / seconds)
}

#[cfg(not(target_arch = "x86_64"))]
fn ceiling() -> Option<f64> {
    None
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let isa = args.next().map_or(Ok(Isa::detect()), |name| Isa::parse(&name))?;
    let only = args.next().unwrap_or_default();
    let pool = ThreadPool::new(1)?;
    let exec = Exec { isa, pool: &pool };
    let peak = ceiling();
    println!("{}: FMA ceiling {:.1} GFMA/s", isa.name(), peak.unwrap_or(f64::NAN) / 1e9);
    let share = |rate: f64| peak.map_or(String::new(), |peak| format!("{:3.0} %", rate / peak * 100.0));
    for (name, batch, shape) in cases().into_iter().filter(|c| c.0.contains(&only)) {
        let (f32_rate, f16_rate) = (rate(exec, batch, shape, false)?, rate(exec, batch, shape, true)?);
        println!("{name:24} {:6.1} {}   f16 weights {:6.1}", f32_rate / 1e9, share(f32_rate), f16_rate / 1e9);
    }
    if "attention".contains(&only) {
        let rate = attention(exec)?;
        println!("{:24} {:6.1} {}", "attention 12x128x64x128", rate / 1e9, share(rate));
    }
    Ok(())
}

/// Multiply-adds per second of a convolution or matrix product.
fn rate(exec: Exec<'_>, batch: usize, shape: ConvShape, half: bool) -> Result<f64, KernelError> {
    let n = shape.kernel[0] * shape.kernel[1] * shape.in_c / shape.groups * shape.out_c;
    let layout = WeightLayout::Hwio;
    let plan = if half {
        let w: Vec<u16> = (0..n).map(|i| 0x3000 + (i % 17) as u16).collect();
        ConvF32::with_weights(shape, FloatWeights::F16(&w), layout, None, 0.0, f32::INFINITY)?
    } else {
        let w: Vec<f32> = (0..n).map(|i| (i % 17) as f32 * 0.01).collect();
        ConvF32::new(shape, &w, layout, None, 0.0, f32::INFINITY)?
    };
    let x: Vec<f32> = (0..batch * shape.in_h * shape.in_w * shape.in_c).map(|i| (i % 23) as f32).collect();
    let mut out = vec![0f32; batch * shape.out_hw()?.iter().product::<usize>() * shape.out_c];
    let mut result = Ok(());
    let seconds = best_of(|| result = plan.run(exec, &x, &mut out));
    result.map(|()| (batch * plan.macs()) as f64 / seconds)
}

/// The same for the first product of an attention layer.
fn attention(exec: Exec<'_>) -> Result<f64, KernelError> {
    let [heads, m, k, n] = [12, 128, 64, 128];
    let plan = MatMulF32::new([m, k, n], (0..heads).map(|i| [i, i]).collect())?;
    let (a, b) = (vec![0.5f32; heads * m * k], vec![0.25f32; heads * k * n]);
    let (mut out, mut scratch) = (vec![0f32; heads * m * n], vec![0u8; plan.scratch_len()]);
    let mut result = Ok(());
    let seconds = best_of(|| result = plan.run(exec, &a, &b, &mut out, &mut scratch));
    result.map(|()| (heads * m * k * n) as f64 / seconds)
}

//! Times the main shapes through the public plans and prints each kernel's share of what this core can do:
//! `cargo run --release -p ottava-kernels --example kernels [isa] [name]`, where the name is part of a line's or that of a network,
//! which sums all dense products of that network.
//!
//! The yardstick is measured in the same run: a chain of `vpmaddubsw`, `vpmaddwd` and `vpaddd` on registers, which is what saturating
//! kernels are made of. Shares above 1 are possible, since exact kernels may add in 16 bits first.

#![allow(unsafe_code)] // the yardstick is a sequence of instructions

use std::time::Instant;

use ottava_kernels::{
    ConvShape, ConvU8, Epilogue, Exec, Isa, KernelError, OutMut, OutQ, Packing, ThreadPool, WeightData, WeightLayout,
    Weights,
};

/// A line of the table.
struct Line {
    name: String,
    macs: f64,
    /// Sets the line up.
    setup: Box<dyn Fn(Isa) -> Result<Ready, KernelError>>,
}

/// A line that can be run, and how long its weights took to pack.
struct Ready {
    run: Box<dyn FnMut()>,
    packing: f64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let isa = args.next().map_or(Ok(Isa::detect()), |name| Isa::parse(&name))?;
    let only = args.next().unwrap_or_default();
    let ceiling = ceiling();
    println!("{}, one thread; chain of vpmaddubsw: {ceiling:.1} GMAC/s", isa.name());
    if let Some((_, rows)) = NETWORKS.iter().find(|(name, _)| *name == only) {
        return network(isa, rows, ceiling);
    }
    println!("{:32} {:>10} {:>8} {:>8} {:>10}", "kernel", "us", "GMAC/s", "share", "packing ms");
    for line in lines().iter().filter(|line| line.name.contains(&only)) {
        let mut ready = (line.setup)(isa)?;
        let rate = |seconds: f64| line.macs / seconds / 1e9;
        let (seconds, setup) = (best_of(&mut ready.run), ready.packing * 1e3);
        let share = rate(seconds) / ceiling;
        println!("{:32} {:10.2} {:8.1} {share:8.2} {setup:10.1}", line.name, seconds * 1e6, rate(seconds));
    }
    Ok(())
}

/// The table: add a line here.
fn lines() -> Vec<Line> {
    vec![
        conv("conv 3x3 64->64 56x56", 56, 64, 64, 3, 1),
        conv("conv 3x3 128->128 28x28", 28, 128, 128, 3, 1),
        conv("conv 3x3 256->256 14x14", 14, 256, 256, 3, 1),
        conv("conv 3x3 512->512 7x7", 7, 512, 512, 3, 1),
        conv("conv 1x1 64->256 56x56", 56, 64, 256, 1, 1),
        conv("conv 1x1 256->64 56x56", 56, 256, 64, 1, 1),
        conv("conv 1x1 256->256 28x28", 28, 256, 256, 1, 1),
        conv("conv 1x1 512->128 28x28", 28, 512, 128, 1, 1),
        conv("conv 1x1 512->2048 7x7", 7, 512, 2048, 1, 1),
        conv("stem 7x7 s2 3->64 224", 224, 3, 64, 7, 2),
        conv("conv 3x3 16->16 32x32", 32, 16, 16, 3, 1),
        conv("conv 3x3 32->32 16x16", 16, 32, 32, 3, 1),
        conv("conv 3x3 64->64 8x8", 8, 64, 64, 3, 1),
        conv("conv 1x1 16->96 112x112", 112, 16, 96, 1, 1),
        gemm("product 128x768x3072", 128, 768, 3072, Packing::Windows),
        gemm("product 128x768x768", 128, 768, 768, Packing::Windows),
        gemm("product 128x3072x768", 128, 3072, 768, Packing::Windows),
        gemm("product 1x4096x4096 dot", 1, 4096, 4096, Packing::Dot),
        gemm("product 1x4096x4096 windows", 1, 4096, 4096, Packing::Windows),
        gemm("product 1x4096x4096 nibbles", 1, 4096, 4096, Packing::Nibbles),
        gemm("product 4x4096x4096 nibbles", 4, 4096, 4096, Packing::Nibbles),
        gemm("product 4x4096x4096 dot", 4, 4096, 4096, Packing::Dot),
        gemm("product 4x4096x4096 windows", 4, 4096, 4096, Packing::Windows),
    ]
}

/// Image side, input and output channels, kernel, stride, and how often the network has it.
type Row = [usize; 6];

/// The dense products of whole networks.
const NETWORKS: [(&str, &[Row]); 2] = [("resnet50", &RESNET50), ("mobilenet_v2", &MOBILENET_V2)];

const RESNET50: [Row; 24] = [
    [224, 3, 64, 7, 2, 1],
    [56, 64, 64, 1, 1, 1],
    [56, 64, 64, 3, 1, 3],
    [56, 64, 256, 1, 1, 4],
    [56, 256, 64, 1, 1, 2],
    [56, 256, 128, 1, 1, 1],
    [56, 128, 128, 3, 2, 1],
    [28, 128, 512, 1, 1, 4],
    [56, 256, 512, 1, 2, 1],
    [28, 512, 128, 1, 1, 3],
    [28, 128, 128, 3, 1, 3],
    [28, 512, 256, 1, 1, 1],
    [28, 256, 256, 3, 2, 1],
    [14, 256, 1024, 1, 1, 6],
    [28, 512, 1024, 1, 2, 1],
    [14, 1024, 256, 1, 1, 5],
    [14, 256, 256, 3, 1, 5],
    [14, 1024, 512, 1, 1, 1],
    [14, 512, 512, 3, 2, 1],
    [7, 512, 2048, 1, 1, 3],
    [14, 1024, 2048, 1, 2, 1],
    [7, 2048, 512, 1, 1, 2],
    [7, 512, 512, 3, 1, 2],
    [1, 2048, 1000, 1, 1, 1],
];

const MOBILENET_V2: [Row; 21] = [
    [224, 3, 32, 3, 2, 1],
    [112, 32, 16, 1, 1, 1],
    [112, 16, 96, 1, 1, 1],
    [56, 96, 24, 1, 1, 1],
    [56, 24, 144, 1, 1, 2],
    [56, 144, 24, 1, 1, 1],
    [28, 144, 32, 1, 1, 1],
    [28, 32, 192, 1, 1, 3],
    [28, 192, 32, 1, 1, 2],
    [14, 192, 64, 1, 1, 1],
    [14, 64, 384, 1, 1, 4],
    [14, 384, 64, 1, 1, 3],
    [14, 384, 96, 1, 1, 1],
    [14, 96, 576, 1, 1, 3],
    [14, 576, 96, 1, 1, 2],
    [7, 576, 160, 1, 1, 1],
    [7, 160, 960, 1, 1, 3],
    [7, 960, 160, 1, 1, 2],
    [7, 960, 320, 1, 1, 1],
    [7, 320, 1280, 1, 1, 1],
    [1, 1280, 1000, 1, 1, 1],
];

/// Times every product of a network and sums them up.
fn network(isa: Isa, rows: &[Row], ceiling: f64) -> Result<(), Box<dyn std::error::Error>> {
    println!("{:32} {:>6} {:>10} {:>8} {:>8} {:>10}", "product", "times", "us", "GMAC/s", "share", "packing ms");
    let print = |name: &str, n: usize, macs: f64, seconds: f64, packing: f64| {
        let (rate, us) = (macs / seconds / 1e9, seconds * 1e6);
        println!("{name:32} {n:6} {us:10.1} {rate:8.1} {:8.2} {:10.1}", rate / ceiling, packing * 1e3);
    };
    let mut sum = (0, 0.0, 0.0, 0.0);
    for [hw, c, out_c, k, stride, n] in rows.iter().copied() {
        let name = format!("{k}x{k} s{stride} {c}->{out_c} {hw}x{hw}");
        let packing = if hw == 1 { Packing::Dot } else { Packing::Windows };
        let line = product(&name, 1, square(hw, c, out_c, k, stride), packing);
        let mut ready = (line.setup)(isa)?;
        let seconds = best_of(&mut ready.run);
        print(&name, n, line.macs, seconds, ready.packing);
        let times = n as f64;
        sum = (sum.0 + n, sum.1 + line.macs * times, sum.2 + seconds * times, sum.3 + ready.packing * times);
    }
    print("all", sum.0, sum.1, sum.2, sum.3);
    Ok(())
}

fn conv(name: &str, hw: usize, in_c: usize, out_c: usize, k: usize, stride: usize) -> Line {
    product(name, 1, square(hw, in_c, out_c, k, stride), Packing::Windows)
}

/// A square image and kernel, padded so that stride 1 keeps the size.
fn square(hw: usize, in_c: usize, out_c: usize, k: usize, stride: usize) -> ConvShape {
    ConvShape {
        in_h: hw,
        in_w: hw,
        in_c,
        out_c,
        kernel: [k; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pads: [k / 2; 4],
        groups: 1,
    }
}

fn gemm(name: &str, rows: usize, k: usize, n: usize, packing: Packing) -> Line {
    product(name, rows, ConvShape::gemm(k, n), packing)
}

/// A line for [`ConvU8`].
fn product(name: &str, batch: usize, shape: ConvShape, packing: Packing) -> Line {
    let n_k = shape.kernel[0] * shape.kernel[1] * shape.in_c / shape.groups;
    let pixels = shape.out_hw().map_or(0, |hw| hw.iter().product::<usize>());
    let setup = move |isa| {
        let mut weights = bell(n_k, shape.out_c);
        if packing == Packing::Nibbles {
            weights.iter_mut().for_each(|w| *w /= 16);
        }
        let spec = Weights { data: WeightData::S8(&weights), layout: WeightLayout::Ohwi, zero_points: &[] };
        let epilogue = Epilogue::Requant { m: vec![1e-4], out: OutQ::u8(128) };
        let start = Instant::now();
        let plan = ConvU8::with_packing(shape, &spec, 128, None, epilogue, packing)?;
        let packing = start.elapsed().as_secs_f64();
        let x: Vec<u8> = (0..batch * shape.in_h * shape.in_w * shape.in_c).map(|i| ((i * 7919) >> 3) as u8).collect();
        let (mut out, mut scratch) = (vec![0; batch * pixels * shape.out_c], vec![0; plan.scratch_len()]);
        let pool = ThreadPool::new(1)?;
        let run = move || {
            let result = plan.run(Exec { isa, pool: &pool }, &x, None, OutMut::Bytes(&mut out), &mut scratch);
            result.expect("the slices match the plan's shape");
        };
        Ok(Ready { run: Box::new(run), packing })
    };
    Line { name: name.to_owned(), macs: (batch * pixels * shape.out_c * n_k) as f64, setup: Box::new(setup) }
}

/// Gaussian weights `[column][k]`, each column scaled so that its largest is 127, as per-channel quantization leaves them.
fn bell(n_k: usize, n: usize) -> Vec<i8> {
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut uniform = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut gauss = || (-2.0 * (1.0 - uniform()).ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    let column = |_| {
        let w: Vec<f64> = (0..n_k).map(|_| gauss()).collect();
        let largest = w.iter().fold(1e-9, |m: f64, w| m.max(w.abs()));
        w.into_iter().map(move |w| (w * 127.0 / largest).round() as i8)
    };
    (0..n).flat_map(column).collect()
}

/// Shortest time of a call within about a third of a second.
fn best_of(f: &mut dyn FnMut()) -> f64 {
    let (start, mut best) = (Instant::now(), f64::MAX);
    while start.elapsed().as_secs_f64() < 0.33 {
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64());
    }
    best
}

/// GMAC/s of the saturating chain on registers; 0 where there is none.
fn ceiling() -> f64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        const ROUNDS: usize = 2000;
        // SAFETY: AVX2 was detected.
        let seconds = best_of(&mut || unsafe { chain(ROUNDS) });
        return (ROUNDS * 8 * 32) as f64 / seconds / 1e9;
    }
    0.0
}

/// Eight independent accumulators, 32 products each per round.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn chain(rounds: usize) {
    macro_rules! link {
        ($c:literal, $t:literal) => {
            concat!(
                "vpmaddubsw ",
                $t,
                ", ymm8, ymm9\nvpmaddwd ",
                $t,
                ", ",
                $t,
                ", ymm10\n",
                "vpaddd ",
                $c,
                ", ",
                $c,
                ", ",
                $t,
                "\n"
            )
        };
    }
    // SAFETY: works on registers alone, all of them declared.
    unsafe {
        core::arch::asm!(
            "2:",
            link!("ymm0", "ymm11"), link!("ymm1", "ymm12"), link!("ymm2", "ymm13"), link!("ymm3", "ymm14"),
            link!("ymm4", "ymm11"), link!("ymm5", "ymm12"), link!("ymm6", "ymm13"), link!("ymm7", "ymm14"),
            "dec {n}",
            "jnz 2b",
            n = inout(reg) rounds => _,
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
            out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _,
            options(nostack, nomem),
        );
    }
}

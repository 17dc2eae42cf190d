//! The points that no other point beats.

/// For each point, whether no other one is at most as large in every objective and smaller in one.
///
/// Equal points are on the front together.
pub fn pareto<const N: usize>(points: &[[u128; N]]) -> Vec<bool> {
    // Whoever beats a point comes before it in lexical order, so each is compared with the front so far only.
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&i| points[i]);
    let mut front: Vec<usize> = Vec::new();
    let mut on_it = vec![false; points.len()];
    for i in order {
        let beats = |j: &usize| points[*j] != points[i] && points[*j].iter().zip(&points[i]).all(|(a, b)| a <= b);
        if !front.iter().any(beats) {
            on_it[i] = true;
            front.push(i);
        }
    }
    on_it
}

/// The front over cycles, SRAM bytes and, if every point has a figure, energy. Points that left more nodes to other devices
/// than the best one did less work, so they do not compete.
pub fn front(rows: &[super::Row]) -> Vec<bool> {
    use super::Outcome::Done;
    let figures = |row: &super::Row| if let Done(f) = &row.outcome { Some(*f) } else { None };
    let least = rows.iter().filter_map(figures).map(|f| f.elsewhere).min().unwrap_or(0);
    let competes = |row: &super::Row| figures(row).filter(|f| f.elsewhere == least);
    let competitors: Vec<(usize, super::Figures)> =
        rows.iter().enumerate().filter_map(|(i, row)| competes(row).map(|f| (i, f))).collect();
    let has_energy = competitors.iter().all(|(_, f)| f.energy_fj.is_some());
    let energy = |f: &super::Figures| if has_energy { f.energy_fj.unwrap_or(0) } else { 0 };
    let objectives: Vec<[u128; 3]> =
        competitors.iter().map(|(_, f)| [f.total_cycles.into(), f.sram_bytes.into(), energy(f)]).collect();
    let mut on_it = vec![false; rows.len()];
    for ((i, _), yes) in competitors.iter().zip(pareto(&objectives)) {
        on_it[*i] = yes;
    }
    on_it
}

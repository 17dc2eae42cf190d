//! The measure of sentence embeddings: how well the cosine of two sentences ranks their likeness, as people see it.

use ottava::Tensor;

/// Spearman's rank correlation; ties share the mean of their ranks.
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "as many of the one as of the other");
    pearson(&ranks(a), &ranks(b))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut rest = order.as_slice();
    let mut before = 0;
    while let Some(&first) = rest.first() {
        let n = rest.iter().take_while(|&&i| values[i] == values[first]).count();
        let (same, more) = rest.split_at(n);
        same.iter().for_each(|&i| ranks[i] = before as f64 + (n - 1) as f64 / 2.0);
        (before, rest) = (before + n, more);
    }
    ranks
}

fn pearson(a: &[f64], b: &[f64]) -> f64 {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
}

/// Spearman of the cosines of rows `2i` and `2i + 1` with the labels of the pairs.
pub fn of_pairs(embeddings: &Tensor, labels: &Tensor) -> f64 {
    let width = embeddings.shape().last().copied().expect("rows");
    let values = embeddings.to_f32s().expect("floats");
    let rows: Vec<&[f32]> = values.chunks_exact(width).collect();
    let cosines: Vec<f64> = rows.chunks_exact(2).map(|pair| cosine(pair[0], pair[1])).collect();
    let labels: Vec<f64> = labels.to_f32s().expect("numbers").into_iter().map(f64::from).collect();
    spearman(&cosines, &labels)
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_share_ties() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        assert_eq!(spearman(&[1.0, 2.0, 9.0], &[1.0, 5.0, 6.0]), 1.0);
        assert_eq!(spearman(&[1.0, 2.0, 9.0], &[3.0, 2.0, 1.0]), -1.0);
    }
}

//! Whether something grows.

/// How fast `y` grows with `x`: the slope of the straight line that fits best. None for fewer than three points.
pub(super) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 3 {
        return None;
    }
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let along = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    let together = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    (along > 0.0).then_some(together / along)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_slope_and_noise_has_none() {
        let line: Vec<_> = (0..10).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))).collect();
        assert!((slope(&line).unwrap() - 2.0).abs() < 1e-9);
        let noise: Vec<_> = (0..100).map(|x| (f64::from(x), if x % 2 == 0 { 1.0 } else { -1.0 })).collect();
        assert!(slope(&noise).unwrap().abs() < 0.01);
        assert_eq!(slope(&line[..2]), None);
        assert_eq!(slope(&[(1.0, 1.0); 5]), None);
    }
}

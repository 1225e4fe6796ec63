//! Layered graph layout (Sugiyama's method): ranks from the sources, few crossings, and coordinates
//! by an isotonic least-squares fit.

/// The size of a box, in pixels.
#[derive(Clone, Copy, Debug)]
pub struct BoxSize {
    /// Width of the box in pixels.
    pub width: f64,
    /// Height of the box in pixels.
    pub height: f64,
}

/// A point in pixels; the origin is the top left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Distance from the left edge.
    pub x: f64,
    /// Distance from the top edge.
    pub y: f64,
}

/// Boxes and lines with their coordinates.
pub struct Layout {
    /// The top left corner of each box, in the order given.
    pub boxes: Vec<Point>,
    /// The points each line goes through: the right side of its producer, bends, the left side of
    /// its consumer.
    pub lines: Vec<Vec<Point>>,
    /// The size of the whole picture.
    pub size: BoxSize,
}

/// Vertical gap between two boxes of a layer.
const GAP_Y: f64 = 26.0;
/// Vertical gap between a line and its neighbour in a layer.
const LINE_GAP_Y: f64 = 14.0;
/// Vertical gap between two lines that end at one side of a box.
const ENDS_GAP_Y: f64 = 12.0;
/// Vertical gap between the picture and a line that goes back.
const GAP_BACK_Y: f64 = 20.0;
/// Sweeps over the layers to reduce crossings.
const SWEEPS: usize = 12;

/// An element of a layer: a box, or a point through which a long line passes.
#[derive(Clone, Copy)]
struct LayerCell {
    size: BoxSize,
    is_box: bool,
}

struct Layers {
    cells: Vec<LayerCell>,
    /// The cells of each layer from top to bottom.
    layers: Vec<Vec<usize>>,
    layer_of: Vec<usize>,
    /// Lines between cells of neighbouring layers.
    links: Vec<(usize, usize)>,
    /// The cells each line passes, from its producer to its consumer.
    paths: Vec<Vec<usize>>,
}

/// Lays out boxes joined by `lines` (pairs of box indices), with `gap_x` between layers. Any graph
/// is allowed: a line that closes a cycle is drawn from right to left.
pub fn layout(boxes: &[BoxSize], lines: &[(usize, usize)], gap_x: f64) -> Layout {
    let mut layers = Layers::new(boxes, lines);
    layers.untangle();
    let tops = layers.tops();
    let widths: Vec<f64> = layers.layers.iter().map(|layer| layers.width(layer)).collect();
    let lefts: Vec<f64> = widths
        .iter()
        .scan(0.0, |left, width| {
            let this = *left;
            *left += width + gap_x;
            Some(this)
        })
        .collect();
    let coordinates =
        CellCoordinates { layers: &layers, tops: &tops, lefts: &lefts, widths: &widths };
    let bottom = (0..layers.cells.len())
        .map(|cell| tops[cell] + layers.cells[cell].size.height)
        .fold(0.0, f64::max);
    let mut paths: Vec<Vec<Point>> =
        layers.paths.iter().map(|path| coordinates.points(path, bottom)).collect();
    coordinates.spread(lines, &mut paths);
    let goes_back = layers.paths.iter().any(|path| coordinates.goes_back(path));
    let right = lefts.last().zip(widths.last()).map_or(0.0, |(left, width)| left + width);
    let height = if goes_back { bottom + 2.0 * GAP_BACK_Y } else { bottom };
    Layout {
        boxes: (0..boxes.len()).map(|cell| coordinates.corner(cell)).collect(),
        lines: paths,
        size: BoxSize { width: right, height },
    }
}

/// Coordinates of the cells.
struct CellCoordinates<'a> {
    layers: &'a Layers,
    tops: &'a [f64],
    /// The left edge of each layer.
    lefts: &'a [f64],
    widths: &'a [f64],
}

impl CellCoordinates<'_> {
    fn corner(&self, cell: usize) -> Point {
        let layer = self.layers.layer_of[cell];
        let slack = self.widths[layer] - self.layers.cells[cell].size.width;
        Point { x: self.lefts[layer] + slack / 2.0, y: self.tops[cell] }
    }

    fn middle(&self, cell: usize) -> f64 {
        self.tops[cell] + self.layers.cells[cell].size.height / 2.0
    }

    fn right(&self, cell: usize) -> f64 {
        self.corner(cell).x + self.layers.cells[cell].size.width
    }

    fn goes_back(&self, path: &[usize]) -> bool {
        let ends = path.first().zip(path.last());
        ends.is_some_and(|(from, to)| self.layers.layer_of[*from] >= self.layers.layer_of[*to])
    }

    /// The points of a line. A line that goes back passes below all boxes.
    fn points(&self, path: &[usize], bottom: f64) -> Vec<Point> {
        let [from, passed @ .., to] = path else { return vec![] };
        let (from, to) = (*from, *to);
        let mut points = vec![Point { x: self.right(from), y: self.middle(from) }];
        if self.goes_back(path) {
            let y = bottom + GAP_BACK_Y;
            points.push(Point { x: self.right(from), y });
            points.push(Point { x: self.corner(to).x - 6.0, y });
        }
        for cell in passed {
            let layer = self.layers.layer_of[*cell];
            let (left, y) = (self.lefts[layer], self.middle(*cell));
            points.push(Point { x: left, y });
            points.push(Point { x: left + self.widths[layer], y });
        }
        points.push(Point { x: self.corner(to).x, y: self.middle(to) });
        points
    }

    /// Spreads the ends of several lines at one side of a box, in the order of their next points.
    fn spread(&self, lines: &[(usize, usize)], paths: &mut [Vec<Point>]) {
        for node in 0..self.layers.cells.len() {
            for outgoing in [true, false] {
                let here = |line: &&usize| {
                    let (from, to) = lines[**line];
                    (if outgoing { from } else { to }) == node
                };
                let all: Vec<usize> = (0..lines.len()).collect();
                let mut ends: Vec<usize> = all.iter().filter(here).copied().collect();
                let second = |line: usize| {
                    let points = &paths[line];
                    if outgoing { points[1].y } else { points[points.len() - 2].y }
                };
                ends.sort_by(|a, b| second(*a).total_cmp(&second(*b)));
                let height = self.layers.cells[node].size.height;
                let step = (height * 0.6 / ends.len().max(2) as f64).min(ENDS_GAP_Y);
                let first = self.middle(node) - step * (ends.len() as f64 - 1.0) / 2.0;
                for (nth, line) in ends.into_iter().enumerate() {
                    let points = &mut paths[line];
                    let end = if outgoing { 0 } else { points.len() - 1 };
                    points[end].y = first + step * nth as f64;
                }
            }
        }
    }
}

impl Layers {
    fn new(boxes: &[BoxSize], lines: &[(usize, usize)]) -> Layers {
        let mut layer_of = ranks(boxes.len(), lines);
        let mut cells: Vec<LayerCell> =
            boxes.iter().map(|&size| LayerCell { size, is_box: true }).collect();
        let (mut links, mut paths) = (vec![], vec![]);
        for &(from, to) in lines {
            let mut path = vec![from];
            for layer in layer_of[from] + 1..layer_of[to] {
                path.push(cells.len());
                cells.push(LayerCell { size: BoxSize { width: 0.0, height: 0.0 }, is_box: false });
                layer_of.push(layer);
            }
            path.push(to);
            if layer_of[from] < layer_of[to] {
                links.extend(path.windows(2).map(|pair| (pair[0], pair[1])));
            }
            paths.push(path);
        }
        let depth = layer_of.iter().max().map_or(0, |deepest| deepest + 1);
        let mut layers = vec![vec![]; depth];
        layer_of.iter().enumerate().for_each(|(cell, &layer)| layers[layer].push(cell));
        Layers { cells, layers, layer_of, links, paths }
    }

    fn width(&self, layer: &[usize]) -> f64 {
        layer.iter().map(|&cell| self.cells[cell].size.width).fold(0.0, f64::max)
    }

    /// Barycentre heuristic: orders each layer by the mean position of its neighbours, alternating
    /// directions, and keeps the order with the fewest crossings.
    fn untangle(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for sweep in 0..SWEEPS {
            if best.0 == 0 {
                break;
            }
            let forward = sweep % 2 == 0;
            let depth = self.layers.len();
            for step in 1..depth {
                let layer = if forward { step } else { depth - 1 - step };
                let positions = self.positions();
                let mean = |cell: usize| {
                    let near: Vec<f64> =
                        self.neighbours(cell, forward).map(|other| positions[other]).collect();
                    match near.len() {
                        0 => positions[cell],
                        many => near.iter().sum::<f64>() / many as f64,
                    }
                };
                let mut keyed: Vec<(f64, usize)> =
                    self.layers[layer].iter().map(|&cell| (mean(cell), cell)).collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.layers[layer] = keyed.into_iter().map(|(_, cell)| cell).collect();
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    /// The position of each cell in its layer, from 0 to 1.
    fn positions(&self) -> Vec<f64> {
        let mut positions = vec![0.0; self.cells.len()];
        for layer in &self.layers {
            for (rank, &cell) in layer.iter().enumerate() {
                positions[cell] = (rank as f64 + 0.5) / layer.len() as f64;
            }
        }
        positions
    }

    fn neighbours(&self, cell: usize, before: bool) -> impl Iterator<Item = usize> {
        self.links.iter().filter_map(move |&(from, to)| match before {
            true => (to == cell).then_some(from),
            false => (from == cell).then_some(to),
        })
    }

    fn crossings(&self) -> usize {
        let positions = self.positions();
        let cross = |&(a, b): &(usize, usize), &(c, d): &(usize, usize)| {
            self.layer_of[a] == self.layer_of[c]
                && (positions[a] - positions[c]) * (positions[b] - positions[d]) < 0.0
        };
        let after =
            |(i, link)| self.links[i + 1..].iter().filter(|other| cross(link, other)).count();
        self.links.iter().enumerate().map(after).sum()
    }

    /// The top of each cell, as near to the middle of its neighbours as order and gaps allow.
    fn tops(&self) -> Vec<f64> {
        let mut middles = vec![0.0; self.cells.len()];
        for sweep in 0..SWEEPS * 2 {
            let forward = sweep % 2 == 0;
            let order: Vec<usize> = match forward {
                true => (0..self.layers.len()).collect(),
                false => (0..self.layers.len()).rev().collect(),
            };
            for layer in order {
                self.settle(&self.layers[layer], forward, &mut middles);
            }
        }
        let top = |cell: usize| middles[cell] - self.cells[cell].size.height / 2.0;
        let highest = (0..self.cells.len()).map(top).fold(f64::INFINITY, f64::min);
        (0..self.cells.len()).map(|cell| top(cell) - highest).collect()
    }

    fn settle(&self, layer: &[usize], forward: bool, middles: &mut [f64]) {
        let wish = |cell: usize| {
            let near: Vec<f64> =
                self.neighbours(cell, forward).map(|other| middles[other]).collect();
            let weight = if near.is_empty() { 0.1 } else { near.len() as f64 };
            let mean = near.iter().sum::<f64>() / near.len().max(1) as f64;
            (if near.is_empty() { middles[cell] } else { mean }, weight)
        };
        let mut offset = 0.0;
        let mut offsets = vec![0.0];
        for pair in layer.windows(2) {
            offset += self.distance(pair[0], pair[1]);
            offsets.push(offset);
        }
        let wishes: Vec<(f64, f64)> = layer
            .iter()
            .zip(&offsets)
            .map(|(&cell, offset)| {
                let (middle, weight) = wish(cell);
                (middle - offset, weight)
            })
            .collect();
        for ((&cell, offset), value) in layer.iter().zip(&offsets).zip(rising(&wishes)) {
            middles[cell] = value + offset;
        }
    }

    /// The minimum distance between the middles of two cells, one above the other.
    fn distance(&self, above: usize, below: usize) -> f64 {
        let (above, below) = (self.cells[above], self.cells[below]);
        let gap = if above.is_box && below.is_box { GAP_Y } else { LINE_GAP_Y };
        (above.size.height + below.size.height) / 2.0 + gap
    }
}

/// The rank of each box: the longest path from a source. Lines that close a cycle are ignored.
fn ranks(boxes: usize, lines: &[(usize, usize)]) -> Vec<usize> {
    let mut left: Vec<usize> = (0..boxes).collect();
    let mut done = vec![false; boxes];
    let mut rank = vec![0; boxes];
    while !left.is_empty() {
        let fed = |&node: &usize| {
            lines.iter().all(|&(from, to)| to != node || from == node || done[from])
        };
        // The first box placed counts as the beginning of a cycle.
        let next = left.iter().position(fed).unwrap_or(0);
        let node = left.remove(next);
        let before = lines.iter().filter(|&&(from, to)| to == node && done[from]);
        rank[node] = before.map(|&(from, _)| rank[from] + 1).max().unwrap_or(0);
        done[node] = true;
    }
    pull_sources(&mut rank, lines);
    rank
}

/// Moves each source to the layer before its first reader, instead of the far left.
fn pull_sources(rank: &mut [usize], lines: &[(usize, usize)]) {
    for node in 0..rank.len() {
        let is_source = lines.iter().all(|&(from, to)| to != node || from == node);
        let readers = lines.iter().filter(|&&(from, to)| from == node && to != node);
        let first = readers.map(|&(_, to)| rank[to]).min();
        if let (true, Some(first)) = (is_source, first) {
            rank[node] = first.saturating_sub(1);
        }
    }
}

/// Isotonic regression: the rising sequence nearest to weighted values (pool adjacent violators).
fn rising(values: &[(f64, f64)]) -> Vec<f64> {
    let mut pools: Vec<(f64, f64, usize)> = vec![];
    for &(value, weight) in values {
        pools.push((value, weight, 1));
        while let [.., (a, wa, na), (b, wb, nb)] = pools[..] {
            if a <= b {
                break;
            }
            pools.truncate(pools.len() - 2);
            pools.push(((a * wa + b * wb) / (wa + wb), wa + wb, na + nb));
        }
    }
    pools.iter().flat_map(|&(value, _, count)| std::iter::repeat_n(value, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: BoxSize = BoxSize { width: 100.0, height: 40.0 };

    #[test]
    fn a_chain_is_straight_and_boxes_never_overlap() {
        let chain = layout(&[BOX; 4], &[(0, 1), (1, 2), (2, 3)], 50.0);
        assert!(chain.boxes.iter().all(|corner| corner.y.abs() < 1e-6));
        assert!(chain.boxes.windows(2).all(|pair| pair[1].x - pair[0].x == 150.0));
        let star: Vec<(usize, usize)> = (1..9).flat_map(|n| [(0, n), (n, 9), (0, 9)]).collect();
        let star = layout(&[BOX; 10], &star, 50.0);
        for (i, a) in star.boxes.iter().enumerate() {
            for b in &star.boxes[i + 1..] {
                assert!((a.x - b.x).abs() >= BOX.width || (a.y - b.y).abs() >= BOX.height);
            }
        }
    }

    #[test]
    fn avoidable_crossings_are_removed_and_any_graph_terminates() {
        let mut crossed = Layers::new(&[BOX; 6], &[(0, 5), (1, 4), (2, 3)]);
        crossed.untangle();
        assert_eq!(crossed.crossings(), 0);
        for lines in [vec![(0, 1), (1, 0)], vec![(0, 0)], vec![(0, 1), (1, 2), (2, 1)]] {
            assert_eq!(layout(&[BOX; 3], &lines, 10.0).boxes.len(), 3);
        }
        assert_eq!(rising(&[(3.0, 1.0), (1.0, 1.0), (5.0, 1.0)]), [2.0, 2.0, 5.0]);
    }
}

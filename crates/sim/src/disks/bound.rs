//! The lower bound on the time of reading a mirrored collection, by maximal flow.
//!
//! By a time T a disk has delivered at most the integral of its speed. All segments can therefore
//! have been read by T if and only if a flow from segments through the disks of their copies
//! carries all bytes; the earliest T is found by bisection over maximal flows. Segments that begin
//! later use only what disks deliver from then on. Disks may split blocks here, know the future and
//! never seek, so this is a bound and not a goal.

use std::collections::VecDeque;

use crate::speed::{SECOND_NS, SpeedCurve};

/// A segment to be read.
#[derive(Clone, Debug)]
pub struct Demand<'a> {
    /// The disks with a copy.
    pub copies: &'a [usize],
    /// Bytes of the segment.
    pub bytes: u64,
    /// When its reading begins.
    pub from_ns: u64,
}

/// The earliest time at which everything can have been read, to a millionth; `None` if never.
pub fn read_at(disks: &[&SpeedCurve], demands: &[Demand<'_>]) -> Option<u64> {
    let mut low = demands.iter().map(|demand| demand.from_ns).max().unwrap_or(0);
    let mut high = (low + 1).next_power_of_two();
    while !can_read_by(disks, demands, high) {
        low = high;
        high = high.checked_mul(2).filter(|&ns| ns < 1 << 60)?;
    }
    while high - low > 1 + high / 1_000_000 {
        let middle = low + (high - low) / 2;
        if can_read_by(disks, demands, middle) { high = middle } else { low = middle }
    }
    Some(high)
}

fn can_read_by(disks: &[&SpeedCurve], demands: &[Demand<'_>], until_ns: u64) -> bool {
    let mut starts: Vec<u64> = demands.iter().map(|demand| demand.from_ns).collect();
    starts.sort_unstable();
    starts.dedup();
    starts.retain(|&from_ns| from_ns < until_ns);
    let ends = starts.iter().skip(1).copied().chain([until_ns]);
    let epochs: Vec<(u64, u64)> = starts.iter().copied().zip(ends).collect();
    // Nodes: source, sink, segments, and a disk for each epoch.
    let disk_node = |disk: usize, epoch: usize| 2 + demands.len() + disk * epochs.len() + epoch;
    let mut flow = MaxFlow::new(2 + demands.len() + disks.len() * epochs.len());
    for (disk, speed) in disks.iter().enumerate() {
        for (epoch, &(from_ns, to_ns)) in epochs.iter().enumerate() {
            let bytes = speed.work_between(from_ns, to_ns) / u128::from(SECOND_NS);
            flow.edge(disk_node(disk, epoch), 1, bytes as u64);
        }
    }
    for (segment, demand) in demands.iter().enumerate() {
        flow.edge(0, 2 + segment, demand.bytes);
        for &disk in demand.copies {
            let open = |&epoch: &usize| epochs[epoch].0 >= demand.from_ns;
            for epoch in (0..epochs.len()).filter(open) {
                flow.edge(2 + segment, disk_node(disk, epoch), demand.bytes);
            }
        }
    }
    flow.run() == demands.iter().map(|demand| demand.bytes).sum::<u64>()
}

/// Maximal flow from node 0 to node 1 by blocking flows in layers (Dinic 1970).
pub(crate) struct MaxFlow {
    /// Target and capacity left; the edge back is the one with the lowest bit flipped.
    edges: Vec<(usize, u64)>,
    of_node: Vec<Vec<usize>>,
}

impl MaxFlow {
    /// A graph of `nodes` nodes without edges.
    pub fn new(nodes: usize) -> MaxFlow {
        MaxFlow { edges: Vec::new(), of_node: vec![Vec::new(); nodes] }
    }

    /// Adds an edge.
    pub fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        self.of_node[from].push(self.edges.len());
        self.edges.push((to, capacity));
        self.of_node[to].push(self.edges.len());
        self.edges.push((from, 0));
    }

    /// The largest flow.
    pub fn run(&mut self) -> u64 {
        let mut total = 0;
        while let Some(layers) = self.layers() {
            let mut tried = vec![0; self.of_node.len()];
            loop {
                let pushed = self.push(&layers, &mut tried);
                total += pushed;
                if pushed == 0 {
                    break;
                }
            }
        }
        total
    }

    fn layers(&self) -> Option<Vec<u32>> {
        let mut layers = vec![u32::MAX; self.of_node.len()];
        layers[0] = 0;
        let mut queue = VecDeque::from([0]);
        while let Some(node) = queue.pop_front() {
            for &edge in &self.of_node[node] {
                let (to, capacity) = self.edges[edge];
                if capacity > 0 && layers[to] == u32::MAX {
                    layers[to] = layers[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        (layers[1] < u32::MAX).then_some(layers)
    }

    /// Pushes flow along one path through the layers, without recursion: in a ring, paths are long.
    fn push(&mut self, layers: &[u32], tried: &mut [usize]) -> u64 {
        let (mut path, mut node): (Vec<usize>, usize) = (Vec::new(), 0);
        while node != 1 {
            let next = self.of_node[node].get(tried[node]).copied();
            match next {
                Some(edge) => {
                    let (to, capacity) = self.edges[edge];
                    if capacity > 0 && layers[to] == layers[node] + 1 {
                        path.push(edge);
                        node = to;
                    } else {
                        tried[node] += 1;
                    }
                }
                None => {
                    let Some(edge) = path.pop() else { return 0 };
                    node = self.edges[edge ^ 1].0;
                    tried[node] += 1;
                }
            }
        }
        let least = path.iter().map(|&edge| self.edges[edge].1).min().unwrap_or(0);
        for edge in path {
            self.edges[edge].1 -= least;
            self.edges[edge ^ 1].1 += least;
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::speed::SpeedChange;

    fn seconds(disks: &[u64], copies: &[&[usize]], bytes: u64) -> f64 {
        let speeds: Vec<SpeedCurve> =
            disks.iter().map(|&speed| SpeedCurve::constant(speed)).collect();
        let speeds: Vec<&SpeedCurve> = speeds.iter().collect();
        let demand = |copies: &&'static [usize]| Demand { copies, bytes, from_ns: 0 };
        let fixed: Vec<&'static [usize]> =
            copies.iter().map(|copies| &*Box::leak(copies.to_vec().into_boxed_slice())).collect();
        let demands: Vec<Demand<'_>> = fixed.iter().map(demand).collect();
        read_at(&speeds, &demands).map_or(f64::INFINITY, |ns| ns as f64 / SECOND_NS as f64)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= b * 1e-5
    }

    #[test]
    fn ring_spreads_the_load_of_a_slow_disk_and_a_pair_does_not() {
        let ring: &[&[usize]] = &[&[0, 1], &[1, 2], &[2, 3], &[3, 0]];
        assert!(near(seconds(&[500, 1000, 1000, 1000], ring, 7000), 28.0 / 3.5));
        let pairs: &[&[usize]] = &[&[0, 1], &[0, 1], &[2, 3], &[2, 3]];
        assert!(near(seconds(&[500, 1000, 1000, 1000], pairs, 7500), 10.0));
        assert_eq!(seconds(&[0, 0, 1000, 1000], ring, 1000), f64::INFINITY);
    }

    #[test]
    fn bound_equals_the_worst_set_of_segments() {
        // Brute force over all sets of segments: their bytes over the speed of their disks (Hall).
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let disks: Vec<u64> = (0..5).map(|_| random.between(1, 20) * 1000).collect();
            let segments: Vec<Vec<usize>> = (0..6)
                .map(|_| (0..random.between(1, 3)).map(|_| random.below(5) as usize).collect())
                .collect();
            let of_set = |set: u32| {
                let inside = (0..6).filter(|at| set >> at & 1 == 1);
                let reached: std::collections::BTreeSet<usize> =
                    inside.flat_map(|at| segments[at].iter().copied()).collect();
                let speed: u64 = reached.iter().map(|&disk| disks[disk]).sum();
                f64::from(set.count_ones()) * 1e6 / speed as f64
            };
            let worst = (1..64).map(of_set).fold(0.0, f64::max);
            let copies: Vec<&[usize]> = segments.iter().map(Vec::as_slice).collect();
            let found = seconds(&disks, &copies, 1_000_000);
            assert!(near(found, worst), "seed {seed}: {found} is not {worst}");
        }
    }

    #[test]
    fn late_segment_uses_only_later_capacity() {
        let step = SpeedChange { from_ns: 10 * SECOND_NS, bytes_per_second: 500 };
        let speed = SpeedCurve::changing(1000, &[step]);
        let demand = |bytes, from_ns| Demand { copies: &[0], bytes, from_ns };
        let late = [demand(1000, 0), demand(4500, 9 * SECOND_NS)];
        let found = read_at(&[&speed], &late).unwrap() as f64 / SECOND_NS as f64;
        assert!(near(found, 17.0), "{found}");
    }
}

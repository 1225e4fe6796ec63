//! Input and output of the straggler detector: counters of a component, and its slow episodes.

/// Counters of one component since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComponentCounters {
    /// Work that came in, in bytes or rows; one unit for all components of a group.
    pub work_in: u64,
    /// Work that went out, in the same unit.
    pub work_out: u64,
    /// Time in which it had both work and resources: without waits for other components, and
    /// without waits for a processor that its peers wait for, too.
    pub busy_ns: u64,
    /// Processor time, if it is known and comparable: the peers run on the same kind of machine.
    pub cpu_ns: Option<u64>,
}

/// A time in which one component was slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowEpisode {
    /// The component's number, as `StragglerDetector::add` returned it.
    pub component: usize,
    /// The estimated onset, on the clock of the samples.
    pub from_ns: u64,
    /// The end; `None` while the episode lasts.
    pub to_ns: Option<u64>,
    /// Work that the component did during the episode.
    pub work: f64,
    /// Work that its reference would have done in the same busy time.
    pub expected: f64,
    /// Whether the reference is the component's own past, not its peers.
    pub alone: bool,
}

impl SlowEpisode {
    /// The slowdown: how many times as long the work took as expected; `None` if the component
    /// stood still.
    ///
    /// ```
    /// use euphrates_policy::straggler_detector::SlowEpisode;
    ///
    /// let (work, expected) = (50.0, 200.0);
    /// let slow =
    ///     SlowEpisode { component: 0, from_ns: 0, to_ns: None, work, expected, alone: false };
    /// assert_eq!(slow.factor(), Some(4.0));
    /// assert_eq!(SlowEpisode { work: 0.0, ..slow }.factor(), None, "it stood still");
    /// ```
    pub fn factor(&self) -> Option<f64> {
        (self.work > 0.0).then(|| self.expected / self.work)
    }
}

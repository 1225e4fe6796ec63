//! Runtime filters: a join sends the keys of its complete build side to the source of its probe
//! side (semi-join reduction: Bloom, 1970; sideways information passing: Ives and Taylor, ICDE
//! 2008).
//!
//! The check finds the source, and connects both by a [`KeyFilterSlot`]. A filter is a hint: a
//! source that does not use it passes on rows without a match, which the join drops.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow::array::{ArrayRef, BooleanArray};
use parking_lot::{Condvar, Mutex};

use super::needed_rows::ValueOrder;
use crate::error::Result;
use crate::setup::Cancel;

/// Which keys a join holds on one side, from all processes; or which may come first in a sort.
pub trait KeyFilter: Send + Sync {
    /// For each row of these key columns, in the order of [`KeyFilterSlot::columns`], whether the
    /// join may hold an equal key; false where a key is null. Has no nulls.
    fn matches(&self, keys: &[ArrayRef]) -> Result<BooleanArray>;

    /// For each key column, the least and the greatest value of a row that may match, in the type
    /// in which the join compares them, null where there is no bound; `None` if they are not known.
    fn ranges(&self) -> Vec<Option<ArrayRef>>;

    /// For each value of the first key column, whether its row may match whatever the other keys
    /// are, without nulls; `None` if the filter does not tell by one column of several.
    fn may_match_first(&self, first: &ArrayRef) -> Result<Option<BooleanArray>> {
        let _ = first;
        Ok(None)
    }

    /// Whether no row matches that has the bound of its range in the first column.
    fn excludes_bounds(&self) -> bool {
        false
    }

    /// Whether the join holds no key, so that no row matches.
    fn is_empty(&self) -> bool;

    /// Whether it leaves out more rows later on, as the rows that come first do in a sort.
    fn tightens(&self) -> bool {
        false
    }
}

/// Where a join leaves the filter for an input of it, and a source of this input finds it. Both are
/// in one process; a source in another process has a slot that stays empty.
pub struct KeyFilterSlot {
    module: String,
    columns: Vec<String>,
    /// The order of the first column in which rows are wanted; `None` for a join.
    first_rows: Option<ValueOrder>,
    /// The sources that use the filter, as far as they are bound.
    sources: Mutex<Vec<String>>,
    /// Whether the source has instances in this process.
    is_read: AtomicBool,
    state: Mutex<FilterState>,
    changed: Condvar,
}

#[derive(Clone)]
enum FilterState {
    /// No join has announced a filter.
    Absent,
    /// A join has announced a filter, and will publish it or report that there is none.
    Expected,
    Known(Option<Arc<dyn KeyFilter>>),
}

/// The filter that may restrict the rows of a source.
#[derive(Clone, Debug)]
pub struct MatchedBy {
    /// Where the filter is left.
    pub slot: Arc<KeyFilterSlot>,
    /// The id of the source in the flow.
    pub source: String,
    /// The names that the key columns have in the source, in the order of the slot's.
    pub columns: Vec<String>,
    /// Whether the source should wait for the filter. The join takes none of its rows before it has
    /// left the filter, and no other module takes any, so nothing else waits for the source.
    pub is_awaited: bool,
    /// The filters by single ones of several columns, for a source that has not all of them.
    pub single: Vec<MatchedBy>,
}

impl KeyFilterSlot {
    /// The slots of a join for an input whose key columns have these names: for all keys, and, if
    /// there are several, for each alone. A source that has some of the columns gets the filters of
    /// these.
    ///
    /// ```
    /// use euphrates_flow::module::KeyFilterSlot;
    ///
    /// let of = |keys: &[&str]| {
    ///     let keys: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
    ///     let slots = KeyFilterSlot::of_join("join", &keys);
    ///     slots.iter().map(|slot| slot.columns().join(", ")).collect::<Vec<_>>()
    /// };
    /// assert_eq!(of(&["day", "city"]), ["day, city", "day", "city"]);
    /// assert_eq!(of(&["day"]), ["day"]);
    /// ```
    pub fn of_join(module: &str, keys: &[String]) -> Vec<Arc<KeyFilterSlot>> {
        let single = keys.iter().filter(|_| keys.len() > 1).map(|key| vec![key.clone()]);
        let columns = std::iter::once(keys.to_vec()).chain(single);
        columns.map(|columns| Arc::new(KeyFilterSlot::new(module, columns))).collect()
    }

    /// The slot of a join for an input whose key columns have these names.
    pub fn new(module: impl Into<String>, columns: Vec<String>) -> KeyFilterSlot {
        KeyFilterSlot {
            module: module.into(),
            columns,
            first_rows: None,
            sources: Mutex::default(),
            is_read: AtomicBool::new(false),
            state: Mutex::new(FilterState::Absent),
            changed: Condvar::new(),
        }
    }

    /// The slot of a module that keeps the rows that come first by columns of these names, of which
    /// the first has this order.
    pub fn of_first_rows(
        module: impl Into<String>,
        columns: Vec<String>,
        order: ValueOrder,
    ) -> KeyFilterSlot {
        KeyFilterSlot { first_rows: Some(order), ..KeyFilterSlot::new(module, columns) }
    }

    /// The order of the first column in which the module wants rows: the sooner it gets those that
    /// come first, the more of the others the source can leave out. `None` for a join.
    pub fn first_rows(&self) -> Option<ValueOrder> {
        self.first_rows
    }

    /// The id of the join in the flow.
    pub fn module(&self) -> &str {
        &self.module
    }

    /// The names of the key columns in the input of the join; empty if rows that match nothing
    /// matter to the join.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Records that a source will use the filter: it is bound.
    pub fn accept(&self, source: &str) {
        self.sources.lock().push(source.into());
    }

    /// The ids of the sources that will use the filter.
    pub fn sources(&self) -> Vec<String> {
        self.sources.lock().clone()
    }

    /// Records that an instance of the source in this process reads the slot.
    pub fn attach(&self) {
        self.is_read.store(true, Relaxed);
    }

    /// Promises a call of [`Self::publish`], if a source in this process reads the slot; returns
    /// whether it does. Called before any instance runs.
    pub fn promise(&self) -> bool {
        let is_read = self.is_read.load(Relaxed);
        let mut state = self.state.lock();
        if let (true, FilterState::Absent) = (is_read, &*state) {
            *state = FilterState::Expected;
        }
        is_read
    }

    /// Publishes the filter, or reports that there is none. Only the first call counts.
    pub fn publish(&self, filter: Option<Arc<dyn KeyFilter>>) {
        let mut state = self.state.lock();
        if !matches!(*state, FilterState::Known(_)) {
            *state = FilterState::Known(filter);
            self.changed.notify_all();
        }
    }

    /// The filter, if it has been left.
    pub fn get(&self) -> Option<Arc<dyn KeyFilter>> {
        match &*self.state.lock() {
            FilterState::Known(filter) => filter.clone(),
            FilterState::Absent | FilterState::Expected => None,
        }
    }

    /// Whether a filter has been promised and not been left.
    pub fn is_expected(&self) -> bool {
        matches!(*self.state.lock(), FilterState::Expected)
    }

    /// Waits while a filter is promised and not left. Fails if the flow is cancelled.
    ///
    /// ```
    /// use euphrates_flow::Cancel;
    /// use euphrates_flow::module::KeyFilterSlot;
    ///
    /// let slot = KeyFilterSlot::new("join", vec!["city".into()]);
    /// slot.wait(&Cancel::default())?;
    /// slot.attach();
    /// assert!(slot.promise() && slot.is_expected());
    /// slot.publish(None);
    /// slot.wait(&Cancel::default())?;
    /// # Ok::<(), euphrates_flow::Error>(())
    /// ```
    pub fn wait(&self, cancel: &Cancel) -> Result<()> {
        let mut state = self.state.lock();
        while let FilterState::Expected = *state {
            cancel.wait(&self.changed, &mut state)?;
        }
        Ok(())
    }
}

impl fmt::Debug for KeyFilterSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFilterSlot({} of {})", self.columns.join(", "), self.module)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_flow_ends_the_wait_for_a_filter() {
        let (slot, cancel) = (KeyFilterSlot::new("join", vec!["k".into()]), Cancel::default());
        slot.attach();
        assert!(slot.promise());
        cancel.cancel();
        assert!(slot.wait(&cancel).is_err());
    }

    #[test]
    fn nothing_is_promised_where_no_source_reads() {
        let slot = KeyFilterSlot::new("join", vec!["k".into()]);
        assert!(!slot.promise() && !slot.is_expected());
    }

    #[test]
    fn waiting_sources_go_on_when_the_join_has_none() {
        let slot = Arc::new(KeyFilterSlot::new("join", vec!["k".into()]));
        slot.attach();
        assert!(slot.promise());
        let waiting = {
            let slot = slot.clone();
            std::thread::spawn(move || slot.wait(&Cancel::default()).is_ok())
        };
        slot.publish(None);
        assert!(waiting.join().unwrap());
        assert!(slot.get().is_none());
    }
}

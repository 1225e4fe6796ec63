//! Computes the definition and repetition levels of a leaf column (Dremel: Melnik et al., VLDB
//! 2010, section 4.1).
//!
//! The levels of all entries are computed together, one step of the path after the other, so that
//! each step is a loop over bytes; the crate visits lists one by one. The definition level itself
//! tells which entries end above the current step: it is below the level that others have reached.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field};
use euphrates_flow::{Error, Result};

use super::levels::NestedLevels;

/// Entries of a column that are computed together, unless one record has more.
const ENTRIES_MAX: usize = 256 << 10;

/// The path from a field to one of its leaves.
#[derive(Clone, Debug)]
pub struct LeafPath {
    steps: Vec<Step>,
    /// The type of the leaf.
    pub kind: DataType,
    /// Whether the leaf itself may be null.
    is_nullable: bool,
}

/// From an array to one of its children.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// To this column of a struct.
    Column { index: usize, is_nullable: bool },
    /// To the elements of a list or the entries of a map.
    Elements { is_nullable: bool },
}

impl Step {
    fn is_nullable(self) -> bool {
        match self {
            Step::Column { is_nullable, .. } | Step::Elements { is_nullable } => is_nullable,
        }
    }
}

impl LeafPath {
    /// The paths to all leaves of a field, in the order of the file's columns.
    pub fn all(field: &Field) -> Vec<LeafPath> {
        let mut paths = vec![];
        add_paths(field, field.is_nullable(), &mut vec![], &mut paths);
        paths
    }

    /// Whether the field itself is the leaf.
    pub fn is_flat(&self) -> bool {
        self.steps.is_empty()
    }

    /// The greatest definition and repetition level.
    pub fn levels_max(&self) -> (usize, usize) {
        let nullable = self.steps.iter().filter(|step| step.is_nullable()).count();
        let lists = self.steps.iter().filter(|step| matches!(step, Step::Elements { .. }));
        let repetition = lists.count();
        (nullable + repetition + usize::from(self.is_nullable), repetition)
    }

    /// The levels of records, and the values of the leaf that are neither null nor within a null.
    /// Fails if there is a null where the schema has none.
    pub fn shred(
        &self,
        records: &ArrayRef,
        range: Range<usize>,
    ) -> Result<(NestedLevels, ArrayRef)> {
        let mut shredder = Shredder {
            definition: vec![0; range.len()],
            repetition: vec![0; range.len()],
            reached: 0,
            lists: 0,
            slots: records.clone(),
            range,
            selected: None,
        };
        for step in &self.steps {
            shredder.define(step.is_nullable())?;
            match step {
                Step::Column { index, .. } => {
                    shredder.slots = shredder.slots.as_struct().column(*index).clone();
                }
                Step::Elements { .. } => shredder.enter_lists(),
            }
        }
        shredder.define(self.is_nullable)?;
        shredder.finish()
    }

    /// How many records from `begin` on have few enough entries to be computed together; at least
    /// one.
    pub fn fitting(&self, records: &ArrayRef, begin: usize) -> usize {
        let mut count = records.len() - begin;
        while count > 1 && self.entries(records, begin..begin + count) > ENTRIES_MAX {
            count /= 2;
        }
        count
    }

    /// About the number of entries of these records: elements of the last list, in null lists too.
    fn entries(&self, records: &ArrayRef, mut range: Range<usize>) -> usize {
        let (mut slots, mut most) = (records.clone(), range.len());
        for step in &self.steps {
            slots = match step {
                Step::Column { index, .. } => slots.as_struct().column(*index).clone(),
                Step::Elements { .. } => {
                    let (elements, inside) = elements_of(&slots, &range);
                    range = inside;
                    elements
                }
            };
            most = most.max(range.len());
        }
        most
    }
}

fn add_paths(field: &Field, is_nullable: bool, steps: &mut Vec<Step>, paths: &mut Vec<LeafPath>) {
    match field.data_type() {
        DataType::Struct(columns) => {
            for (index, column) in columns.iter().enumerate() {
                steps.push(Step::Column { index, is_nullable });
                add_paths(column, column.is_nullable(), steps, paths);
                steps.pop();
            }
        }
        DataType::List(inner)
        | DataType::LargeList(inner)
        | DataType::FixedSizeList(inner, _)
        | DataType::Map(inner, _) => {
            // The entries of a map are its repeated group, which cannot be null.
            let is_map = matches!(field.data_type(), DataType::Map(..));
            steps.push(Step::Elements { is_nullable });
            add_paths(inner, inner.is_nullable() && !is_map, steps, paths);
            steps.pop();
        }
        kind => paths.push(LeafPath { steps: steps.clone(), kind: kind.clone(), is_nullable }),
    }
}

/// Entries under construction, and the slots of an array that those which are still defined have.
struct Shredder {
    definition: Vec<u8>,
    repetition: Vec<u8>,
    /// The definition level of entries that are not null or empty so far.
    reached: u8,
    /// Number of lists entered.
    lists: u8,
    slots: ArrayRef,
    range: Range<usize>,
    /// The slots of `range` that have an entry; `None` if all have. The others are within a null.
    selected: Option<BooleanBuffer>,
}

impl Shredder {
    /// Ends the entries whose slots are null.
    fn define(&mut self, is_nullable: bool) -> Result<()> {
        let nulls = self.slots.nulls();
        let nulls = nulls.map(|nulls| nulls.slice(self.range.start, self.range.len()));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        match (is_nullable, nulls) {
            (false, None) => return Ok(()),
            (false, Some(nulls)) => return self.masked(&nulls),
            (true, None) => {
                let reached = self.reached;
                self.definition.iter_mut().for_each(|level| *level += u8::from(*level == reached));
            }
            (true, Some(nulls)) => self.define_valid(&nulls)?,
        }
        self.reached += 1;
        Ok(())
    }

    fn define_valid(&mut self, nulls: &NullBuffer) -> Result<()> {
        let valid = nulls.inner();
        let selected = match &self.selected {
            None => valid.clone(),
            Some(selected) => selected & valid,
        };
        let of_entries = match &self.selected {
            None => valid.clone(),
            Some(slots) => {
                let valid = BooleanArray::new(valid.clone(), None);
                filter(&valid, &slots.clone().into())?.as_boolean().values().clone()
            }
        };
        if of_entries.len() == self.definition.len() {
            let levels = self.definition.iter_mut().zip(&of_entries);
            levels.for_each(|(level, is_valid)| *level += u8::from(is_valid));
        } else {
            let mut valid = of_entries.iter();
            for level in self.definition.iter_mut().filter(|level| **level == self.reached) {
                *level += u8::from(valid.next() == Some(true));
            }
        }
        self.selected = Some(selected);
        Ok(())
    }

    /// Fails unless all these nulls are within other nulls.
    fn masked(&self, nulls: &NullBuffer) -> Result<()> {
        let is_masked =
            |selected: &BooleanBuffer| (selected & &!nulls.inner()).count_set_bits() == 0;
        if self.selected.as_ref().is_some_and(is_masked) {
            return Ok(());
        }
        let error = Error::failed("a value is null inside a type that has no nulls there");
        Err(error.remedy("make the inner field nullable"))
    }

    /// Replaces each list by its elements. Lists are not null, as `define` has ended those.
    fn enter_lists(&mut self) {
        match self.slots.data_type() {
            DataType::LargeList(_) => {
                let offsets = self.slots.as_list::<i64>().offsets().clone();
                self.unroll(|slot| offsets[slot] as usize);
            }
            DataType::FixedSizeList(_, size) => {
                let size = *size as usize;
                self.unroll(|slot| slot * size);
            }
            DataType::Map(..) => {
                let offsets = self.slots.as_map().offsets().clone();
                self.unroll(|slot| offsets[slot] as usize);
            }
            _ => {
                let offsets = self.slots.as_list::<i32>().offsets().clone();
                self.unroll(|slot| offsets[slot] as usize);
            }
        }
    }

    /// `offset` is where the elements of a slot begin, which end where those of the next begin.
    fn unroll(&mut self, offset: impl Fn(usize) -> usize) {
        let length = |slot: usize| offset(slot + 1) - offset(slot);
        let (elements, inside) = elements_of(&self.slots, &self.range);
        self.selected = match self.selected.take() {
            None => {
                self.repeat(self.range.clone().map(length), inside.len());
                None
            }
            Some(selected) => {
                let first = self.range.start;
                let slots = || selected.set_indices().map(|slot| first + slot);
                let count = slots().map(length).sum();
                self.repeat(slots().map(length), count);
                let bits = || selected_elements(slots(), &offset, &inside);
                (count < inside.len()).then(bits)
            }
        };
        (self.slots, self.range) = (elements, inside);
    }

    /// Gives every element of a list an entry; `lengths` are those of the lists that are not null,
    /// and `count` is their sum. An empty list keeps its entry, which ends there.
    fn repeat(&mut self, mut lengths: impl Iterator<Item = usize>, count: usize) {
        self.lists += 1;
        let most = self.definition.len() + count;
        let mut definition = vec![self.reached + 1; most];
        let mut repetition = vec![self.lists; most];
        let mut at = 0;
        for (level, repeated) in self.definition.iter().zip(&self.repetition) {
            repetition[at] = *repeated;
            let length = match *level == self.reached {
                true => lengths.next().unwrap_or(0),
                false => 0,
            };
            if length == 0 {
                definition[at] = *level;
            }
            at += length.max(1);
        }
        definition.truncate(at);
        repetition.truncate(at);
        (self.definition, self.repetition) = (definition, repetition);
        self.reached += 1;
    }

    fn finish(self) -> Result<(NestedLevels, ArrayRef)> {
        let values = self.slots.slice(self.range.start, self.range.len());
        let values = match self.selected {
            None => values,
            Some(selected) => filter(&values, &selected.into())?,
        };
        let levels = NestedLevels {
            definition: Buffer::from_vec(self.definition),
            repetition: (self.lists > 0).then(|| Buffer::from_vec(self.repetition)),
            of_values: self.reached,
        };
        Ok((levels, values))
    }
}

/// The array of the elements of lists, and those of the lists in a range.
fn elements_of(lists: &ArrayRef, range: &Range<usize>) -> (ArrayRef, Range<usize>) {
    match lists.data_type() {
        DataType::LargeList(_) => {
            let lists = lists.as_list::<i64>();
            let offset = |slot: usize| lists.offsets()[slot] as usize;
            (lists.values().clone(), offset(range.start)..offset(range.end))
        }
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            let elements = lists.as_fixed_size_list().values().clone();
            (elements, range.start * size..range.end * size)
        }
        DataType::Map(..) => {
            let maps = lists.as_map();
            let offset = |slot: usize| maps.offsets()[slot] as usize;
            (std::sync::Arc::new(maps.entries().clone()), offset(range.start)..offset(range.end))
        }
        _ => {
            let lists = lists.as_list::<i32>();
            let offset = |slot: usize| lists.offsets()[slot] as usize;
            (lists.values().clone(), offset(range.start)..offset(range.end))
        }
    }
}

/// Which elements `inside` belong to one of the lists.
fn selected_elements(
    lists: impl Iterator<Item = usize>,
    offset: impl Fn(usize) -> usize,
    inside: &Range<usize>,
) -> BooleanBuffer {
    let mut bits = BooleanBufferBuilder::new(inside.len());
    for list in lists {
        let (begin, end) = (offset(list), offset(list + 1));
        bits.append_n(begin - inside.start - bits.len(), false);
        bits.append_n(end - begin, true);
    }
    bits.append_n(inside.len() - bits.len(), false);
    bits.finish()
}

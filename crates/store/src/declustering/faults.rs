//! Read faults of a collection, for the report, and for the error when no copy is left to read.

use std::collections::BTreeMap;

use euphrates_flow::Error;

use crate::segment::Damage;

/// The most damages that are stored in full; the others are counted.
const KEPT_MAX: usize = 64;
/// The most damages in one line of the report.
const LISTED_MAX: usize = 3;

/// The faults of one reading.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    kept: Vec<Damage>,
    /// Blocks that were requested from another copy.
    blocks: usize,
    /// Copies that are lost as a whole.
    copies: usize,
    /// Consecutive failures of the device, by segment and copy.
    read_errors: BTreeMap<(usize, usize), u32>,
}

impl Faults {
    /// Consecutive refusals after which a copy counts as lost.
    const REFUSALS_MAX: u32 = 4;

    pub fn on_copy(&mut self, damage: Damage) {
        self.copies += 1;
        self.keep(damage);
    }

    pub fn on_block(&mut self, damage: Damage) {
        self.blocks += 1;
        self.keep(damage);
    }

    fn keep(&mut self, damage: Damage) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(damage);
        }
    }

    /// Counts a device's success or refusal to read a block of a copy. Returns whether to give up
    /// the copy: after a few consecutive refusals, which distinguish a dead disk from a bad block.
    pub fn on_device(&mut self, segment: usize, copy: usize, has_refused: bool) -> bool {
        let refusals = self.read_errors.entry((segment, copy)).or_default();
        *refusals = if has_refused { *refusals + 1 } else { 0 };
        *refusals == Faults::REFUSALS_MAX
    }

    /// The remark for the report, if there were faults.
    pub fn remark(&self) -> Option<String> {
        if self.kept.is_empty() {
            return None;
        }
        let mut told: Vec<String> =
            self.kept.iter().take(LISTED_MAX).map(Damage::to_string).collect();
        if self.blocks + self.copies > LISTED_MAX {
            told.push("…".to_string());
        }
        let blocks = count(self.blocks, "damaged block");
        let copies = count(self.copies, "damaged copy").replace("copys", "copies");
        let what = match (self.blocks, self.copies) {
            (_, 0) => blocks,
            (0, _) => copies,
            _ => format!("{blocks}, {copies}"),
        };
        Some(format!(
            "{what}, read from mirrors: {}; `euphrates repair` repairs them",
            told.join("; ")
        ))
    }

    /// The error when no copy of a block is left.
    pub fn error(&self, block: u32, path: &str, disks: &[String]) -> Error {
        let here = |damage: &&Damage| {
            damage.path.ends_with(path) && damage.block.is_none_or(|bad| bad == block as usize)
        };
        let told: Vec<String> = self.kept.iter().filter(here).map(Damage::to_string).collect();
        let disks = disks.join(", ");
        let why = if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) };
        Error::corrupt(format!("block {block} of {path} cannot be read from disks {disks}{why}"))
            .remedy("run `euphrates verify` to learn what is left, and write it again")
    }
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_is_given_up_after_consecutive_refusals() {
        let mut faults = Faults::default();
        let answers = [true, true, false, true, true, true, true, true];
        let given_up: Vec<bool> =
            answers.iter().map(|&refused| faults.on_device(0, 1, refused)).collect();
        assert_eq!(given_up.iter().position(|&up| up), Some(6));
        assert!(!faults.on_device(0, 0, true), "each copy is counted by itself");
    }

    #[test]
    fn report_counts_all_damages_and_lists_some() {
        let damage =
            |block| Damage { disk: "d".into(), path: "p".into(), block, what: "wrong".into() };
        let mut faults = Faults::default();
        assert_eq!(faults.remark(), None);
        (0..100).for_each(|block| faults.on_block(damage(Some(block))));
        faults.on_copy(damage(None));
        let told = faults.remark().unwrap();
        assert!(told.starts_with("100 damaged blocks, 1 damaged copy, read from"), "{told}");
        assert!(told.len() < 400, "{told}");
        let error = faults.error(7, "x/p", &["a".into(), "d".into()]).to_string();
        assert!(error.contains("block 7 of x/p cannot be read from disks a, d"), "{error}");
    }
}

//! The perturbations of a running flow. The engine can only clear all of them, so ending one means
//! clearing all and starting the others again with adapted times.

use euphrates_flow::Perturbation;
use serde::Serialize;

/// A perturbation that has not ended.
#[derive(Clone, Debug, Serialize)]
pub struct ActivePerturbation {
    /// The number by which a client ends it.
    pub number: u64,
    /// The perturbation; its `after` counts from the beginning of the run.
    #[serde(flatten)]
    pub perturbation: Perturbation,
}

/// The perturbations of a run, in the order of their numbers.
#[derive(Debug, Default)]
pub struct ActivePerturbations {
    next: u64,
    all: Vec<ActivePerturbation>,
}

impl ActivePerturbations {
    /// Adds perturbations; `now` is in seconds since the beginning of the run.
    pub fn add(&mut self, list: &[Perturbation], now: f64) {
        for added in list {
            let after = Some(added.after.unwrap_or_default() + now);
            let perturbation = Perturbation { after, ..added.clone() };
            self.all.push(ActivePerturbation { number: self.next, perturbation });
            self.next += 1;
        }
    }

    /// The perturbations that have not ended.
    pub fn active(&self, now: f64) -> Vec<&ActivePerturbation> {
        self.all.iter().filter(|one| remainder(&one.perturbation, now).is_some()).collect()
    }

    /// Removes all perturbations at once.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// Removes one, and returns the remainder of the others with times relative to `now`; `None` if
    /// there is none of this number.
    pub fn end(&mut self, number: u64, now: f64) -> Option<Vec<Perturbation>> {
        let at = self.all.iter().position(|one| one.number == number)?;
        self.all.remove(at);
        Some(self.all.iter().filter_map(|one| remainder(&one.perturbation, now)).collect())
    }
}

/// The remainder of a perturbation, with times relative to `now`; `None` if it is over. A repeated
/// one starts at its next regular time.
fn remainder(how: &Perturbation, now: f64) -> Option<Perturbation> {
    let since = now - how.after.unwrap_or_default();
    if since < 0.0 {
        return Some(Perturbation { after: Some(-since), ..how.clone() });
    }
    if let Some(every) = how.every {
        return Some(Perturbation { after: Some(every - since % every), ..how.clone() });
    }
    let lasts = how.lasts.map(|lasts| lasts - since);
    let is_over = lasts.is_some_and(|lasts| lasts <= 0.0);
    (!is_over).then(|| Perturbation { after: None, lasts, ..how.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(after: Option<f64>, lasts: Option<f64>, every: Option<f64>) -> Perturbation {
        let text = r#"[{"module": "work", "share": 0.5}]"#;
        let how = Perturbation::list_from_json(text).unwrap().remove(0);
        Perturbation { after, lasts, every, ..how }
    }

    fn numbers(list: &ActivePerturbations, now: f64) -> Vec<u64> {
        list.active(now).iter().map(|one| one.number).collect()
    }

    #[test]
    fn ended_perturbations_are_not_listed() {
        let mut list = ActivePerturbations::default();
        list.add(&[slow(None, Some(2.0), None), slow(Some(5.0), None, None)], 10.0);
        list.add(&[slow(None, Some(1.0), Some(4.0))], 11.0);
        assert_eq!(numbers(&list, 11.5), [0, 1, 2]);
        assert_eq!(numbers(&list, 12.0), [1, 2]);
        list.clear();
        assert!(list.active(12.0).is_empty());
        list.add(&[slow(None, None, None)], 13.0);
        assert_eq!(numbers(&list, 99.0), [3]);
    }

    #[test]
    fn ending_one_keeps_the_schedule_of_the_others() {
        let mut list = ActivePerturbations::default();
        let those = [
            slow(None, None, None),
            slow(None, Some(3.0), None),
            slow(Some(5.0), Some(1.0), None),
            slow(None, Some(1.0), Some(4.0)),
            slow(None, Some(1.0), None),
        ];
        list.add(&those, 10.0);
        let others = list.end(0, 12.0).unwrap();
        let times: Vec<_> = others.iter().map(|how| (how.after, how.lasts)).collect();
        assert_eq!(times, [(None, Some(1.0)), (Some(3.0), Some(1.0)), (Some(2.0), Some(1.0))]);
        assert!(list.end(0, 12.0).is_none());
    }
}

//! What is done to a running flow on purpose, and has not ended. The engine takes back all of it at
//! once, so whoever ends one of several has the others begin anew.

use euphrates_flow::Perturbation;
use serde::Serialize;

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub struct Perturbed {
    /// What it is called by whoever ends it.
    pub number: u64,
    /// It; its `after` counts from the beginning of the run.
    #[serde(flatten)]
    pub how: Perturbation,
}

/// All of them.
#[derive(Debug, Default)]
pub struct List {
    next: u64,
    all: Vec<Perturbed>,
}

impl List {
    /// These come to it, so many seconds after the run has begun.
    pub fn add(&mut self, list: &[Perturbation], now: f64) {
        for how in list {
            let after = Some(how.after.unwrap_or_default() + now);
            self.all
                .push(Perturbed { number: self.next, how: Perturbation { after, ..how.clone() } });
            self.next += 1;
        }
    }

    /// Those that have not ended by now.
    pub fn now(&self, now: f64) -> Vec<&Perturbed> {
        self.all.iter().filter(|one| left(&one.how, now).is_some()).collect()
    }

    /// Ends all of them.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// Ends this one; says how the others go on, as seen from now, if there is such a one.
    pub fn end(&mut self, number: u64, now: f64) -> Option<Vec<Perturbation>> {
        let at = self.all.iter().position(|one| one.number == number)?;
        self.all.remove(at);
        Some(self.all.iter().filter_map(|one| left(&one.how, now)).collect())
    }
}

/// What is left of it, with times that count from now. One that comes again and again comes next
/// when it would have.
fn left(how: &Perturbation, now: f64) -> Option<Perturbation> {
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

    fn numbers(list: &List, now: f64) -> Vec<u64> {
        list.now(now).iter().map(|one| one.number).collect()
    }

    #[test]
    fn what_is_over_is_not_listed() {
        let mut list = List::default();
        list.add(&[slow(None, Some(2.0), None), slow(Some(5.0), None, None)], 10.0);
        list.add(&[slow(None, Some(1.0), Some(4.0))], 11.0);
        assert_eq!(numbers(&list, 11.5), [0, 1, 2]);
        assert_eq!(numbers(&list, 12.0), [1, 2]);
        list.clear();
        assert!(list.now(12.0).is_empty());
        list.add(&[slow(None, None, None)], 13.0);
        assert_eq!(numbers(&list, 99.0), [3]);
    }

    #[test]
    fn when_one_is_ended_the_others_go_on_as_they_would_have() {
        let mut list = List::default();
        let those = [
            slow(None, None, None),
            slow(None, Some(3.0), None),
            slow(Some(5.0), Some(1.0), None),
            slow(None, Some(1.0), Some(4.0)),
            slow(None, Some(1.0), None),
        ];
        list.add(&those, 10.0);
        let left = list.end(0, 12.0).unwrap();
        let times: Vec<_> = left.iter().map(|how| (how.after, how.lasts)).collect();
        assert_eq!(times, [(None, Some(1.0)), (Some(3.0), Some(1.0)), (Some(2.0), Some(1.0))]);
        assert!(list.end(0, 12.0).is_none());
    }
}

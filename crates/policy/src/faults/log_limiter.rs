//! Log rate limiting: at most a fixed number of lines per second, and a count of omitted ones.

/// Limits messages that a remote peer can cause.
///
/// ```
/// use euphrates_policy::log_limiter::{Print, Quota};
///
/// let mut quota = Quota::new(10);
/// assert_eq!(quota.on_messages(7, 1000), Print { left_out: 0, messages: 10 });
/// assert_eq!(quota.on_messages(8, 3), Print { left_out: 990, messages: 3 });
/// ```
#[derive(Clone, Debug)]
pub struct Quota {
    per_second_max: u64,
    second: u64,
    printed: u64,
    left_out: u64,
}

/// The lines to print now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Print {
    /// Messages omitted in earlier seconds, to be reported in a line of its own, first, unless 0.
    pub left_out: u64,
    /// Messages to print, the oldest first.
    pub messages: u64,
}

impl Quota {
    /// A limit of `per_second_max` messages per second.
    pub fn new(per_second_max: u64) -> Quota {
        Quota { per_second_max, second: 0, printed: 0, left_out: 0 }
    }

    /// Accounts for `count` messages in `second`. A call with 0 messages reports those omitted in
    /// an earlier second.
    pub fn on_messages(&mut self, second: u64, count: u64) -> Print {
        let mut print = Print::default();
        if second != self.second {
            (self.second, self.printed) = (second, 0);
            print.left_out = core::mem::take(&mut self.left_out);
        }
        print.messages = count.min(self.per_second_max - self.printed);
        self.printed += print.messages;
        self.left_out += count - print.messages;
        self.check();
        print
    }

    fn check(&self) {
        assert!(self.printed <= self.per_second_max, "more is printed than allowed");
        let is_full = self.printed == self.per_second_max;
        assert!(is_full || self.left_out == 0, "messages are left out although there is room");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_limited_per_second_and_counted() {
        let mut quota = Quota::new(10);
        let print = |left_out, messages| Print { left_out, messages };
        assert_eq!(quota.on_messages(7, 4), print(0, 4));
        assert_eq!(quota.on_messages(7, 1000), print(0, 6));
        assert_eq!(quota.on_messages(7, 5), print(0, 0));
        assert_eq!(quota.on_messages(7, 0), print(0, 0));
        assert_eq!(quota.on_messages(8, 12), print(999, 10));
        assert_eq!(quota.on_messages(20, 0), print(2, 0));
        assert_eq!(quota.on_messages(20, 1), print(0, 1));
        // A clock that is set back begins a new second.
        assert_eq!(quota.on_messages(3, 10), print(0, 10));
    }
}

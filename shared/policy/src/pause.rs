//! LIM-7: how a throttled answer pauses a destination, how plan time stands still, how a streak ends.
//!
//! Owns: [`Pause`], the part of a clock item that is compared and swapped as a whole. Must not: write.

use std::time::Duration;

use crate::decision::pause_of;
use crate::retry_after::LONGEST_ASK;
use crate::timestamp::{Timestamp, millis};

/// The part of a clock item that pauses write (LIM-7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pause {
    /// Nothing is sent before this.
    pub until: Option<Timestamp>,
    /// When the last pause was set.
    pub from: Option<Timestamp>,
    /// How far plan time is behind real time, in ms.
    pub shift: i64,
    /// Pauses in a row without a success between them.
    pub streak: u32,
}

impl Pause {
    /// What a throttled answer makes of the pause (LIM-7); `started` is when its request started.
    #[must_use]
    pub fn throttled(self, asked: Option<Duration>, started: Timestamp, now: Timestamp) -> Self {
        if self.has_seen(started) {
            // Its request had its place before the pause was set: it may lengthen that one.
            return asked.map_or(self, |ask| self.raised(now.plus(ask.min(LONGEST_ASK)), now));
        }
        let length = pause_of(asked, self.streak).min(LONGEST_ASK);
        let raised = self.raised(now.plus(length), now);
        Self { from: Some(now), streak: self.streak.saturating_add(1), ..raised }
    }

    /// Raises the end of the pause, never lowers it; plan time stands still for what was added.
    #[must_use]
    pub fn raised(self, until: Timestamp, now: Timestamp) -> Self {
        let old = self.until.unwrap_or(now).max(now);
        if until <= old {
            return self;
        }
        let shift = self.shift.saturating_add(millis(until.since(old)));
        Self { until: Some(until), shift, from: self.from.or(Some(now)), ..self }
    }

    /// Lifts the pause: what was left of it is taken from the shift again.
    #[must_use]
    pub fn lifted(self, now: Timestamp) -> Self {
        let left = self.until.map_or(0, |until| millis(until.since(now)));
        Self { until: None, shift: self.shift.saturating_sub(left), ..self }
    }

    /// What a 2xx to a request that started after the pause makes of it: the streak ends (LIM-7).
    #[must_use]
    pub fn succeeded(self, started: Timestamp) -> Self {
        Self { streak: if self.has_seen(started) { self.streak } else { 0 }, ..self }
    }

    /// Whether a request that started then belongs to the last pause: the gate is closed while a pause lasts, so
    /// one that started before its end was booked before it was set. Else each place that is booked ahead of a
    /// 429 would count as a pause of its own, and one volley could double the pause up to its longest.
    fn has_seen(self, started: Timestamp) -> bool {
        self.from.max(self.until).is_some_and(|end| started < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clocks;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000_000_000);
    const FREE: Pause = Pause { until: None, from: None, shift: 0, streak: 0 };

    fn at(ms: u64) -> Timestamp {
        NOW.plus(Duration::from_millis(ms))
    }

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// The pause's end and the shift in ms after [`NOW`], and the streak.
    #[track_caller]
    fn check(label: &str, pause: Pause, until: Option<u64>, shift: i64, streak: u32) {
        let got = (pause.until, pause.shift, pause.streak);
        assert_eq!(got, (until.map(at), shift, streak), "{label}");
    }

    /// A pause of 2 s from [`NOW`], the first in a row.
    fn first() -> Pause {
        FREE.throttled(None, NOW, NOW)
    }

    #[test]
    fn lim_7_how_long_a_pause_lasts() {
        let again = |streak, asked| Pause { streak, ..FREE }.throttled(asked, NOW, NOW);
        check("first, without an ask", again(0, None), Some(2000), 2000, 1);
        check("first, an ask alone", again(0, Some(seconds(1))), Some(1000), 1000, 1);
        check("first, an ask of 0 is none", again(0, Some(seconds(0))), Some(2000), 2000, 1);
        check("third, without an ask", again(2, None), Some(8000), 8000, 3);
        check("third, at least the cool-down", again(2, Some(seconds(1))), Some(8000), 8000, 3);
        check("third, a longer ask", again(2, Some(seconds(60))), Some(60_000), 60_000, 3);
        check("our own is at most 5 min", again(40, None), Some(300_000), 300_000, 41);
        check("an ask is not", again(40, Some(seconds(600))), Some(600_000), 600_000, 41);
        check("but at most 7 days", again(0, Some(seconds(u64::MAX))), Some(604_800_000), 604_800_000, 1);
        assert_eq!(again(u32::MAX, None).streak, u32::MAX);
    }

    #[test]
    fn lim_7_a_volley_of_ten_429s_is_one_pause() {
        let volley = |asked| {
            (0..10).fold(FREE, |pause, i| {
                // Sent 20 ms apart, answered after 100 ms: those booked ahead of the first answer start after it.
                pause.throttled(asked, at(20 * i), at(20 * i + 100))
            })
        };
        check("without an ask", volley(None), Some(2100), 2000, 1);
        check("each asks 5 s: the last ends last", volley(Some(seconds(5))), Some(5280), 5180, 1);
    }

    #[test]
    fn lim_7_places_booked_within_a_second_before_the_pause_belong_to_it() {
        let pause = first();
        check("the last millisecond of the pause", pause.throttled(None, at(1999), at(2500)), Some(2000), 2000, 1);
        check("sent at its end: the next pause", pause.throttled(None, at(2000), at(2500)), Some(6500), 6000, 2);
    }

    #[test]
    fn lim_7_a_late_answer_lengthens_its_pause_and_no_more() {
        let pause = first();
        let late = |asked, now| pause.throttled(asked, at(0), at(now));
        check("a longer ask", late(Some(seconds(9)), 500), Some(9500), 9500, 1);
        check("a shorter one never lowers", late(Some(seconds(1)), 500), Some(2000), 2000, 1);
        check("no ask", late(None, 500), Some(2000), 2000, 1);
        check(
            "an ask after the end adds only what is still to come",
            late(Some(seconds(3)), 6000),
            Some(9000),
            5000,
            1,
        );
    }

    #[test]
    fn lim_7_raising_never_lowers_and_counts_from_the_old_end() {
        let hour = FREE.raised(at(3_600_000), NOW);
        check("set", hour, Some(3_600_000), 3_600_000, 0);
        check("lower", hour.raised(at(60_000), at(1000)), Some(3_600_000), 3_600_000, 0);
        check("the same", hour.raised(at(3_600_000), at(1000)), Some(3_600_000), 3_600_000, 0);
        check("higher", hour.raised(at(3_700_000), at(1000)), Some(3_700_000), 3_700_000, 0);
        check("after its end", hour.raised(at(5_000_000), at(4_000_000)), Some(5_000_000), 4_600_000, 0);
        assert_eq!(FREE.raised(NOW, NOW), FREE, "to now");
        assert_eq!(FREE.raised(NOW, at(1)), FREE, "to the past");
        let gone = hour.raised(Timestamp::FAR_FUTURE, at(1000));
        assert_eq!(gone.raised(Timestamp::FAR_FUTURE, at(9000)), gone, "run twice, it is the same");
        let throttled = gone.throttled(Some(seconds(5)), at(2000), at(3000));
        assert_eq!(throttled, gone, "a throttled answer does not end an operator's pause");
    }

    #[test]
    fn lim_7_lifting_takes_back_what_was_left() {
        let hour = FREE.raised(at(3_600_000), NOW);
        check("after ten minutes", hour.lifted(at(600_000)), None, 600_000, 0);
        check("at once", hour.lifted(NOW), None, 0, 0);
        check("after its end", hour.lifted(at(4_000_000)), None, 3_600_000, 0);
        check("nothing to lift", FREE.lifted(NOW), None, 0, 0);
        let lifted = hour.lifted(at(600_000));
        assert_eq!(lifted.lifted(at(600_000)), lifted, "run twice, it is the same");
        let since = hour.lifted(at(600_000)).throttled(None, NOW.minus(seconds(1)), at(600_500));
        check("an answer to a request from before it", since, None, 600_000, 0);
        let forever = FREE.raised(Timestamp::FAR_FUTURE, NOW).lifted(at(5000));
        check("a pause without end", forever, None, 5000, 0);
        check("the streak stays", first().lifted(at(500)), None, 500, 1);
    }

    #[test]
    fn lim_7_plan_time_never_jumps() {
        let plan_time = |pause, now| Clocks { pause, ..Clocks::default() }.plan_time(now).0;
        let start = NOW.micros().0;
        let pause = first();
        let longer = pause.throttled(Some(seconds(10)), NOW, at(500));
        let lifted = longer.lifted(at(4000));
        let again = lifted.throttled(None, at(5000), at(5100));
        for (label, pause, now, expected) in [
            ("before", FREE, 0, start),
            ("paused", pause, 0, start),
            ("paused still", pause, 500, start),
            ("lengthened", longer, 500, start),
            ("lengthened still", longer, 4000, start),
            ("lifted", lifted, 4000, start),
            ("a second later", lifted, 5100, start + 1_100_000),
            ("paused again", again, 5100, start + 1_100_000),
            ("at its end", again, 9100, start + 1_100_000),
            ("after it", again, 9101, start + 1_101_000),
        ] {
            assert_eq!(plan_time(pause, at(now)), expected, "{label}");
        }
    }

    #[test]
    fn lim_7_a_streak_ends_with_a_success_that_was_sent_after_the_pause() {
        let pause = Pause { streak: 3, ..first() };
        let streak = |started| pause.succeeded(at(started)).streak;
        assert_eq!(streak(2000), 0, "sent at its end");
        assert_eq!(streak(1999), 3, "sent while it lasted: booked before it was set");
        assert_eq!(pause.succeeded(NOW.minus(Duration::from_millis(1))).streak, 3, "sent before it");
        let lifted = pause.lifted(at(100));
        assert_eq!(lifted.succeeded(at(100)).streak, 0, "sent after it was lifted");
        assert_eq!(lifted.succeeded(NOW.minus(Duration::from_millis(1))).streak, 3, "sent before a lifted one");
        let second = pause.throttled(None, at(5000), at(6000)).lifted(at(6100));
        assert_eq!(second.succeeded(at(5999)).streak, 4, "sent before the last of two");
        assert_eq!(pause.succeeded(at(2000)), Pause { streak: 0, ..pause }, "nothing else changes");
        assert_eq!(FREE.succeeded(NOW), FREE);
    }

    #[test]
    fn lim_7_pauses_in_a_row_double_until_a_success() {
        let mut pause = FREE;
        let mut now = NOW;
        let mut lengths = Vec::new();
        for _ in 0..4 {
            pause = pause.throttled(None, now, now);
            let until = pause.until.expect("a pause");
            lengths.push(until.since(now).as_secs());
            now = until;
        }
        assert_eq!(lengths, [2, 4, 8, 16]);
        let next = pause.succeeded(now).throttled(None, now, now);
        assert_eq!(next.until.map(|u| u.since(now)), Some(seconds(2)));
    }
}

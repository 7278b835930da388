//! What happens to a device during a run, as typed: `"10s devid=2 latency=x20"`, `"5s devid=1 fail"`,
//! `"20s devid=2 recover"`.

use std::str::FromStr;

use crate::bench::simulator::Condition;
use crate::units::DeviceId;

/// What happens to a device during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in ns since the start.
    pub at_ns: u64,
    /// To which device.
    pub devid: DeviceId,
    /// How it fares from then on.
    pub condition: Condition,
}

/// Text that is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad event {given:?}, expect \"TIME devid=N latency=xFACTOR | fail | recover\", TIME in s or ms")]
pub struct BadEvent {
    /// What was given.
    pub given: String,
}

impl FromStr for Event {
    type Err = BadEvent;

    fn from_str(text: &str) -> Result<Self, BadEvent> {
        parse(text).ok_or_else(|| BadEvent { given: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Event> {
    let mut words = text.split_whitespace();
    let at_ns = parse_time(words.next()?)?;
    let devid = DeviceId::new(words.next()?.strip_prefix("devid=")?.parse().ok()?);
    let condition = match words.next()? {
        "fail" => Condition::Failing,
        "recover" => Condition::Healthy,
        slow => Condition::Slow(slow.strip_prefix("latency=x")?.parse().ok().filter(|&factor| factor > 0)?),
    };
    words.next().is_none().then_some(Event { at_ns, devid, condition })
}

/// `10s`, `1.5s`, `250ms`.
fn parse_time(text: &str) -> Option<u64> {
    let (number, unit_ns) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e6),
        None => (text.strip_suffix('s')?, 1e9),
    };
    let value: f64 = number.parse().ok()?;
    // A hundred years is more than any run lasts.
    (0.0..3.0e9).contains(&value).then_some((value * unit_ns) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_typed() {
        let event = |at_ns, devid, condition| Ok(Event { at_ns, devid: DeviceId::new(devid), condition });
        assert_eq!("10s devid=2 latency=x20".parse(), event(10_000_000_000, 2, Condition::Slow(20)));
        assert_eq!("250ms devid=1 fail".parse(), event(250_000_000, 1, Condition::Failing));
        assert_eq!("1.5s  devid=3  recover".parse(), event(1_500_000_000, 3, Condition::Healthy));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "10s",
            "10 devid=1 fail",
            "-1s devid=1 fail",
            "10s devid=x fail",
            "10s devid=1 latency=x0",
            "NaNs devid=1 fail",
            "10s devid=1 fail now",
        ] {
            assert!(text.parse::<Event>().is_err(), "{text:?}");
        }
    }
}

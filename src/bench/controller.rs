//! What several devices share on their way to the host: what they have served crosses it one after the other.
//!
//! A controller does not hold up a device: it goes on with its next request while the last one waits to cross. The order
//! is that in which the devices were done; which way the bytes go makes no difference.

use super::model::{DeviceModel, transfer_ns};

struct Link {
    name: String,
    bytes_per_second: u64,
    free_ns: u64,
}

/// The controllers of a set of media.
pub(super) struct Controllers {
    links: Vec<Link>,
    /// The controller of each medium, as an index.
    of_medium: Vec<Option<usize>>,
}

impl Controllers {
    /// Models that name the same controller are behind one; where they do not agree on its rate, the lowest holds.
    pub(super) fn of(media: &[DeviceModel]) -> Self {
        let mut links: Vec<Link> = Vec::new();
        let link_of = |model: &DeviceModel| {
            let own = model.controller.as_ref()?;
            let known = links.iter().position(|link| link.name == own.name);
            let index = known.unwrap_or(links.len());
            match links.get_mut(index) {
                Some(link) => link.bytes_per_second = link.bytes_per_second.min(own.bytes_per_second),
                None => {
                    links.push(Link { name: own.name.clone(), bytes_per_second: own.bytes_per_second, free_ns: 0 });
                }
            }
            Some(index)
        };
        Self { of_medium: media.iter().map(link_of).collect(), links }
    }

    /// Whether a medium is behind a controller.
    pub(super) fn is_behind(&self, medium: usize) -> bool {
        self.of_medium.get(medium).is_some_and(Option::is_some)
    }

    /// When `len_bytes` that a medium has served at `now_ns` have reached the host.
    pub(super) fn cross(&mut self, medium: usize, len_bytes: u64, now_ns: u64) -> u64 {
        let index = self.of_medium.get(medium).copied().flatten();
        let Some(link) = index.and_then(|index| self.links.get_mut(index)) else { return now_ns };
        link.free_ns = link.free_ns.max(now_ns) + transfer_ns(len_bytes, link.bytes_per_second);
        link.free_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::model::{Controller, Direction};
    use crate::bench::simulator::{Happening, Io, Simulator};
    use crate::units::Physical;

    fn hdd(controller: Option<(&str, u64)>) -> DeviceModel {
        let behind = |(name, bytes_per_second): (&str, u64)| Controller { name: name.to_owned(), bytes_per_second };
        DeviceModel { controller: controller.map(behind), ..DeviceModel::built_in("hdd").unwrap() }
    }

    /// What all devices together deliver, in MB/s: each reads in order, two requests at a time.
    fn rate(models: &[DeviceModel]) -> f64 {
        const LEN_BYTES: u64 = 256 << 10;
        let mut simulator = Simulator::new(models, 1);
        let mut sent = vec![0; models.len()];
        let mut send = |simulator: &mut Simulator, device: usize| {
            let at = Physical::new(sent[device] * LEN_BYTES);
            simulator.submit(Io { device, direction: Direction::Read, at, len_bytes: LEN_BYTES, tag: 0 });
            sent[device] += 1;
        };
        (0..2 * models.len()).for_each(|nth| send(&mut simulator, nth % models.len()));
        for _ in 0..4_000 {
            let Some(Happening::Done { io, .. }) = simulator.advance() else { panic!("nothing is under way") };
            send(&mut simulator, io.device);
        }
        (4_000 * LEN_BYTES) as f64 * 1e3 / simulator.now_ns() as f64
    }

    fn close(found: f64, expect: f64) {
        assert!((found / expect - 1.0).abs() < 0.02, "found {found}, expect {expect}");
    }

    #[test]
    fn devices_share_the_rate_of_the_controller_that_they_name() {
        close(rate(&[hdd(None), hdd(None), hdd(None)]), 3.0 * 255.0);
        let shared = || hdd(Some(("hba", 300_000_000)));
        close(rate(&[shared(), shared(), shared()]), 300.0);
        close(rate(&[shared(), shared(), hdd(Some(("other", 300_000_000)))]), 300.0 + 255.0);
    }

    #[test]
    fn a_controller_that_is_fast_enough_only_adds_the_time_to_cross_it() {
        close(rate(&[hdd(Some(("hba", 2_000_000_000))), hdd(Some(("hba", 2_000_000_000)))]), 2.0 * 255.0);
    }

    #[test]
    fn of_two_rates_of_one_controller_the_lower_holds() {
        close(rate(&[hdd(Some(("hba", 400_000_000))), hdd(Some(("hba", 200_000_000)))]), 200.0);
    }
}

//! Devices in virtual time: requests go in, completions come out in the order of their time.
//!
//! A discrete-event simulation with one thread and integers for time: the same inputs give the same outputs on every
//! machine. It holds what moves (queues, heads, channels); what a movement costs is in `model`. Devices may share a
//! medium, as partitions of one disk do, or a controller.
//!
//! The queue in front of a disk is sorted and served in one direction, unless a request has waited too long, as the
//! kernel's mq-deadline does; of as many as its own queue holds (NCQ) the disk takes the nearest by seek and rotation,
//! with the same patience. Flash serves in order of arrival. A device goes on with what it has been told of before the
//! host learns of a completion and can answer it with another request.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use super::controller::Controllers;
use super::model::{DeviceModel, Direction, DiskModel, FlashModel, Head, Medium};
use super::random::Random;
use crate::units::Physical;

/// How long a disk may let a read wait for nearer ones: `read_expire` of the kernel's mq-deadline.
const READ_PATIENCE_NS: u64 = 500_000_000;
/// The same for a write: `write_expire`.
const WRITE_PATIENCE_NS: u64 = 5_000_000_000;

/// A request to one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Which device, by its index.
    pub device: usize,
    /// Whether it reads or writes.
    pub direction: Direction,
    /// Where on the device.
    pub at: Physical,
    /// How much, in bytes.
    pub len_bytes: u64,
    /// Comes back with the completion.
    pub tag: u64,
}

/// What happened next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A request is done.
    Done {
        /// What had been asked.
        io: Io,
        /// When it had been submitted, in ns.
        submitted_ns: u64,
        /// Whether the device delivered.
        ok: bool,
    },
    /// A timer has run out; its tag.
    Timer(u64),
}

/// How a device fares from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// As its model says.
    Healthy,
    /// Everything takes so many times as long.
    Slow(u32),
    /// Every request takes its time and then fails.
    Failing,
}

/// A device of the simulation: a medium, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Index of the medium.
    pub medium: usize,
    /// Where this device starts on it, in bytes.
    pub start: Physical,
}

/// The devices, their queues and the time.
pub struct Simulator {
    now_ns: u64,
    /// Orders what happens at the same moment.
    sequence: u64,
    random: Random,
    media: Vec<Engine>,
    members: Vec<(Member, Condition)>,
    agenda: BTreeMap<(u64, u64), Event>,
    controllers: Controllers,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    io: Io,
    /// The address on the medium.
    at: u64,
    submitted_ns: u64,
}

impl Pending {
    /// When it must not wait for others any longer.
    fn deadline_ns(&self) -> u64 {
        self.submitted_ns
            + match self.io.direction {
                Direction::Read => READ_PATIENCE_NS,
                Direction::Write => WRITE_PATIENCE_NS,
            }
    }
}

enum Event {
    /// A medium can take another request.
    Free(usize),
    /// A read has left its channel; whether it succeeds.
    CrossLink(usize, Pending, bool),
    /// A medium has served a request, which has yet to cross the controller.
    CrossController(usize, Pending, bool),
    Done(Pending, bool),
    Timer(u64),
    Change(usize, Condition),
}

enum Engine {
    Disk(Disk),
    Flash(Flash),
}

struct Disk {
    model: DiskModel,
    head: Head,
    /// The host's queue, sorted by address.
    waiting: BTreeMap<(u64, u64), Pending>,
    /// The same by deadline and arrival, pointing into `waiting`.
    by_deadline: BTreeMap<(u64, u64), u64>,
    /// What the disk has been told of.
    inside: Vec<Pending>,
    /// Where the host's elevator has got to.
    elevator: (u64, u64),
    busy: bool,
    /// Requests for which the head had to move.
    seeks: u64,
}

struct Flash {
    model: FlashModel,
    waiting: VecDeque<Pending>,
    free_channels: u32,
    link_free_ns: u64,
}

impl Simulator {
    /// Devices with a medium each, all healthy, at time 0.
    pub fn new(models: &[DeviceModel], seed: u64) -> Self {
        let members = (0..models.len()).map(|medium| Member { medium, start: Physical::new(0) }).collect();
        Self::with_members(models, members, seed)
    }

    /// Devices that are parts of media. A member of a medium that is not there counts as one of the last medium.
    pub fn with_members(media: &[DeviceModel], members: Vec<Member>, seed: u64) -> Self {
        let last = media.len().saturating_sub(1);
        Self {
            now_ns: 0,
            sequence: 0,
            random: Random::new(seed),
            media: media.iter().map(Engine::new).collect(),
            members: members
                .into_iter()
                .map(|member| (Member { medium: member.medium.min(last), ..member }, Condition::Healthy))
                .collect(),
            agenda: BTreeMap::new(),
            controllers: Controllers::of(media),
        }
    }

    /// The time, in ns since the start.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How often the head of the disk behind `device` had to move; 0 for flash.
    pub fn seeks(&self, device: usize) -> u64 {
        match self.members.get(device).and_then(|(member, _)| self.media.get(member.medium)) {
            Some(Engine::Disk(disk)) => disk.seeks,
            _ => 0,
        }
    }

    /// How often the heads of all disks had to move, each disk once, whatever number of devices is on it.
    pub fn all_seeks(&self) -> u64 {
        self.media.iter().map(|engine| if let Engine::Disk(disk) = engine { disk.seeks } else { 0 }).sum()
    }

    /// Hands a request to its device, now. One to a device that is not there is dropped.
    pub fn submit(&mut self, io: Io) {
        let Some(&(member, _)) = self.members.get(io.device) else { return };
        self.sequence += 1;
        let pending = Pending { io, at: (member.start + io.at.raw()).raw(), submitted_ns: self.now_ns };
        match &mut self.media[member.medium] {
            Engine::Disk(disk) => {
                disk.waiting.insert((pending.at, self.sequence), pending);
                disk.by_deadline.insert((pending.deadline_ns(), self.sequence), pending.at);
            }
            Engine::Flash(flash) => flash.waiting.push_back(pending),
        }
        self.start_work(member.medium);
    }

    /// Lets [`Happening::Timer`] happen at `at_ns` (not before now).
    pub fn wake_at(&mut self, at_ns: u64, tag: u64) {
        self.schedule(at_ns, Event::Timer(tag));
    }

    /// Changes how a device fares from `at_ns` on (not before now).
    pub fn change_at(&mut self, at_ns: u64, device: usize, condition: Condition) {
        self.schedule(at_ns, Event::Change(device, condition));
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.agenda.insert((at_ns.max(self.now_ns), self.sequence), event);
    }

    /// Goes on to what happens next; `None` when nothing is left to happen.
    pub fn advance(&mut self) -> Option<Happening> {
        loop {
            let ((at_ns, _), event) = self.agenda.pop_first()?;
            self.now_ns = at_ns;
            match event {
                Event::Done(Pending { io, submitted_ns, .. }, ok) => {
                    return Some(Happening::Done { io, submitted_ns, ok });
                }
                Event::Timer(tag) => return Some(Happening::Timer(tag)),
                Event::Free(medium) => {
                    match &mut self.media[medium] {
                        Engine::Disk(disk) => disk.busy = false,
                        Engine::Flash(flash) => flash.free_channels += 1,
                    }
                    self.start_work(medium);
                }
                Event::CrossLink(medium, pending, ok) => self.cross_link(medium, pending, ok),
                Event::CrossController(medium, pending, ok) => {
                    let through_ns = self.controllers.cross(medium, pending.io.len_bytes, self.now_ns);
                    self.schedule(through_ns, Event::Done(pending, ok));
                }
                Event::Change(device, condition) => {
                    if let Some(member) = self.members.get_mut(device) {
                        member.1 = condition;
                    }
                }
            }
        }
    }

    /// Starts whatever the medium can start now.
    fn start_work(&mut self, medium: usize) {
        while let Some(started) = self.media[medium].start(self.now_ns, &mut self.random) {
            let condition = self.members[started.pending.io.device].1;
            let after_ns = self.now_ns + started.took_ns * condition.factor();
            let ok = condition != Condition::Failing;
            if let Some(busy_ns) = started.busy_ns {
                self.schedule(self.now_ns + busy_ns * condition.factor(), Event::Free(medium));
            }
            match started.then {
                Then::Done => self.served(after_ns, medium, started.pending, ok),
                Then::CrossLink => self.schedule(after_ns, Event::CrossLink(medium, started.pending, ok)),
            }
        }
    }

    /// What was read leaves its channel and crosses the link, one after the other.
    fn cross_link(&mut self, medium: usize, pending: Pending, ok: bool) {
        let factor = self.members[pending.io.device].1.factor();
        let Engine::Flash(flash) = &mut self.media[medium] else { return };
        let link_ns = flash.model.link_ns(pending.io.direction, pending.io.len_bytes) * factor;
        let through_ns = flash.link_free_ns.max(self.now_ns) + link_ns;
        flash.link_free_ns = through_ns;
        let free_ns = if flash.model.is_throttle() { through_ns } else { self.now_ns };
        self.schedule(free_ns, Event::Free(medium));
        self.served(through_ns, medium, pending, ok);
    }

    fn served(&mut self, at_ns: u64, medium: usize, pending: Pending, ok: bool) {
        let is_behind = self.controllers.is_behind(medium);
        let event = if is_behind { Event::CrossController(medium, pending, ok) } else { Event::Done(pending, ok) };
        self.schedule(at_ns, event);
    }
}

impl Condition {
    fn factor(self) -> u64 {
        if let Self::Slow(factor) = self { u64::from(factor) } else { 1 }
    }
}

/// A request that a medium has begun to serve.
struct Started {
    pending: Pending,
    took_ns: u64,
    then: Then,
    /// After which time the medium can take another one, where that does not wait for the link.
    busy_ns: Option<u64>,
}

enum Then {
    Done,
    CrossLink,
}

impl Engine {
    fn new(model: &DeviceModel) -> Self {
        match &model.medium {
            Medium::Disk(model) => Self::Disk(Disk {
                model: model.clone(),
                head: Head::default(),
                waiting: BTreeMap::new(),
                by_deadline: BTreeMap::new(),
                inside: Vec::new(),
                elevator: (0, 0),
                busy: false,
                seeks: 0,
            }),
            Medium::Flash(model) => Self::Flash(Flash {
                free_channels: model.channels.max(1),
                model: model.clone(),
                waiting: VecDeque::new(),
                link_free_ns: 0,
            }),
        }
    }

    fn start(&mut self, now_ns: u64, random: &mut Random) -> Option<Started> {
        match self {
            Self::Disk(disk) => disk.start(now_ns),
            Self::Flash(flash) => flash.start(now_ns, random),
        }
    }
}

impl Disk {
    fn start(&mut self, now_ns: u64) -> Option<Started> {
        if self.busy {
            return None;
        }
        self.tell_the_disk(now_ns);
        let access = |pending: &Pending| {
            self.model.access(&self.head, pending.io.direction, pending.at, pending.io.len_bytes, now_ns)
        };
        // A request that continues another one waits for it: the disk takes runs from their start.
        let ends: SmallVec<[u64; 32]> = self.inside.iter().map(|pending| pending.at + pending.io.len_bytes).collect();
        let starts_a_run = |pending: &Pending| !ends.contains(&pending.at);
        // Overdue ones first, by age; then what is coming up under the head anyway; then the nearest.
        let urgency = |pending: &Pending| pending.deadline_ns().min(now_ns);
        let (index, access) = (self.inside.iter().enumerate())
            .filter(|(_, pending)| starts_a_run(pending) || pending.deadline_ns() <= now_ns)
            .map(|(index, pending)| (index, urgency(pending), access(pending)))
            .min_by_key(|(index, urgency, access)| {
                (*urgency, access.seek, access.positioning_ns, self.inside[*index].at)
            })
            .map(|(index, _, access)| (index, access))?;
        let pending = self.inside.swap_remove(index);
        self.head = access.head;
        self.busy = true;
        self.seeks += u64::from(access.seek);
        let took_ns = access.done_ns - now_ns;
        Some(Started { pending, took_ns, then: Then::Done, busy_ns: Some(took_ns) })
    }

    /// Fills the disk's own queue from the host's: what is overdue, else upwards from where the elevator has got to,
    /// then from the bottom again.
    fn tell_the_disk(&mut self, now_ns: u64) {
        while self.inside.len() < self.model.queue_depth.max(1) as usize {
            let overdue = self.by_deadline.first_key_value().filter(|((deadline_ns, _), _)| *deadline_ns <= now_ns);
            let key = if let Some((&(_, sequence), &at)) = overdue {
                (at, sequence)
            } else {
                let next = self.waiting.range(self.elevator..).next().or_else(|| self.waiting.iter().next());
                let Some((&key, _)) = next else { return };
                key
            };
            self.elevator = key;
            if let Some(pending) = self.waiting.remove(&key) {
                self.by_deadline.remove(&(pending.deadline_ns(), key.1));
                self.inside.push(pending);
            }
        }
    }
}

impl Flash {
    fn start(&mut self, now_ns: u64, random: &mut Random) -> Option<Started> {
        if self.free_channels == 0 {
            return None;
        }
        let pending = self.waiting.pop_front()?;
        self.free_channels -= 1;
        let (busy_ns, answer_ns) = self.model.channel_ns(pending.io.direction);
        let jitter_ns = busy_ns * u64::from(self.model.jitter_percent.min(100)) / 100;
        let busy_ns = busy_ns - jitter_ns + random.below(2 * jitter_ns + 1);
        if pending.io.direction == Direction::Read || self.model.is_throttle() {
            return Some(Started { pending, took_ns: busy_ns, then: Then::CrossLink, busy_ns: None });
        }
        // A write crosses the link first and is acknowledged from the buffer.
        let link_ns = self.model.link_ns(pending.io.direction, pending.io.len_bytes);
        self.link_free_ns = self.link_free_ns.max(now_ns) + link_ns;
        let arrived_ns = self.link_free_ns - now_ns;
        let took_ns = arrived_ns + answer_ns.min(busy_ns);
        Some(Started { pending, took_ns, then: Then::Done, busy_ns: Some(arrived_ns + busy_ns) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(device: usize, direction: Direction, at: u64, len_bytes: u64, tag: u64) -> Io {
        Io { device, direction, at: Physical::new(at), len_bytes, tag }
    }

    /// Keeps `depth` requests of `len_bytes` in flight; requests per second of virtual time.
    fn rate(model: &str, depth: u64, count: u64, len_bytes: u64, direction: Direction, random: bool) -> f64 {
        let mut simulator = Simulator::new(&[DeviceModel::built_in(model).unwrap()], 1);
        let mut draw = Random::new(2);
        let mut sent = 0;
        let mut send = |simulator: &mut Simulator| {
            let at = if random { draw.below(1 << 24) * 4096 } else { sent * len_bytes };
            simulator.submit(io(0, direction, at, len_bytes, sent));
            sent += 1;
        };
        (0..depth).for_each(|_| send(&mut simulator));
        for done in 0..count {
            assert!(matches!(simulator.advance(), Some(Happening::Done { ok: true, .. })), "{done}");
            send(&mut simulator);
        }
        count as f64 * 1e9 / simulator.now_ns() as f64
    }

    fn close(found: f64, expect: f64, percent: f64) {
        assert!((found / expect - 1.0).abs() < percent / 100.0, "found {found}, expect {expect}");
    }

    #[test]
    fn flash_models_reach_the_figures_of_their_data_sheets() {
        use Direction::{Read, Write};
        for (model, deep_read, one_read, deep_write, sequential) in
            [("ssd", 98e3, 10e3, 90e3, 540e6), ("nvme", 500e3, 15e3, 450e3, 3400e6)]
        {
            close(rate(model, 256, 50_000, 4096, Read, true), deep_read, 10.0);
            close(rate(model, 1, 5_000, 4096, Read, true), one_read, 2.0);
            close(rate(model, 256, 50_000, 4096, Write, true), deep_write, 5.0);
            close(rate(model, 16, 5_000, 1 << 20, Read, false) * f64::from(1 << 20), sequential, 2.0);
        }
    }

    #[test]
    fn the_throttled_disk_moves_100_megabytes_and_answers_7800_requests() {
        close(rate("vm", 64, 20_000, 4096, Direction::Read, true), 7_812.0, 1.0);
        close(rate("vm", 8, 2_000, 1 << 20, Direction::Read, false) * f64::from(1 << 20), 100e6, 2.0);
    }

    #[test]
    fn a_queue_makes_a_disk_faster_at_random_and_changes_nothing_in_sequence() {
        let (alone, queued) =
            (rate("hdd", 1, 500, 4096, Direction::Read, true), rate("hdd", 32, 3_000, 4096, Direction::Read, true));
        assert!(queued > 2.0 * alone, "{alone} {queued}");
        for depth in [1, 8] {
            close(rate("hdd", depth, 2_000, 256 << 10, Direction::Read, false) * f64::from(256 << 10), 255e6, 2.0);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        let run = || rate("nvme", 32, 5_000, 4096, Direction::Read, true).to_bits();
        assert_eq!(run(), run());
    }

    #[test]
    fn members_of_one_disk_share_its_head() {
        let disk = [DeviceModel::built_in("hdd").unwrap()];
        let members = [0, 1 << 41].map(|start| Member { medium: 0, start: Physical::new(start) });
        let mut simulator = Simulator::with_members(&disk, members.to_vec(), 1);
        for read in 0..10 {
            simulator.submit(io(read % 2, Direction::Read, read as u64 * 4096, 4096, 0));
            simulator.advance();
        }
        assert!(simulator.now_ns() > 9 * 5_000_000, "{}", simulator.now_ns());
        assert!(simulator.seeks(0) >= 9);
    }

    #[test]
    fn conditions_change_when_they_should() {
        let mut simulator = Simulator::new(&[DeviceModel::built_in("ssd").unwrap()], 1);
        simulator.change_at(1_000_000, 0, Condition::Slow(20));
        simulator.change_at(10_000_000, 0, Condition::Failing);
        simulator.change_at(20_000_000, 0, Condition::Healthy);
        let mut probe = |at_ns: u64| {
            simulator.wake_at(at_ns, 0);
            assert_eq!(simulator.advance(), Some(Happening::Timer(0)));
            simulator.submit(io(0, Direction::Read, 0, 4096, 1));
            let Some(Happening::Done { submitted_ns, ok, .. }) = simulator.advance() else { panic!("nothing done") };
            (simulator.now_ns() - submitted_ns, ok)
        };
        let (healthy_ns, ok) = probe(0);
        assert!(ok && healthy_ns < 130_000);
        let (slow_ns, ok) = probe(2_000_000);
        assert!(ok && slow_ns > 1_400_000, "{slow_ns}");
        assert!(!probe(11_000_000).1);
        assert!(probe(21_000_000).1);
    }
}

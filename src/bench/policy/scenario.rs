//! The situations that a read policy must do well in: the experiments of the mailing lists and the cases between them.
//! The matrix runs every policy through every one.

use super::{Event, Layout, Setup};
use crate::bench::model::{DeviceModel, UnknownModel};
use crate::bench::workload::{Shape, Workload};
use crate::units::Logical;

/// The part of the modelled file system that is used: the file of a benchmark, at the start of the disk.
const AREA_BYTES: u64 = 64 << 30;
const MIB: u64 = 1 << 20;

/// A situation by name.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// How it is called.
    pub name: &'static str,
    models: &'static [&'static str],
    layout: Layout,
    shape: Shape,
    size_mib: u64,
    /// 0: as the shape has it.
    jobs: u32,
    /// 0: as the shape has it.
    iodepth: u32,
    events: &'static [&'static str],
}

/// What most of them have in common.
const BASE: Scenario = Scenario {
    name: "",
    models: &["nvme", "nvme"],
    layout: Layout::Mirrored(2),
    shape: Shape::Random4k,
    size_mib: 400,
    jobs: 0,
    iodepth: 0,
    events: &[],
};

/// Throttled disks that a second of trouble costs 7,800 requests and not half a million.
const VM: Scenario = Scenario { models: &["vm", "vm"], size_mib: 600, iodepth: 16, ..BASE };
const HDD: Scenario = Scenario { models: &["hdd", "hdd"], shape: Shape::Sequential, size_mib: 4096, ..BASE };

/// All of them, in the order of the report.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "equal-random-4k", ..BASE },
    Scenario { name: "equal-mixed-4k", shape: Shape::Mixed4k, ..BASE },
    Scenario { name: "equal-mixed-64k", shape: Shape::Mixed64k, size_mib: 4096, ..BASE },
    Scenario { name: "equal-latency-4k", shape: Shape::Latency4k, size_mib: 200, ..BASE },
    Scenario { name: "equal-defrag", shape: Shape::Defrag, size_mib: 475, iodepth: 0, ..VM },
    Scenario { name: "equal-sequential", shape: Shape::Sequential, size_mib: 1024, ..VM },
    Scenario { name: "ssd-nvme-random-4k", models: &["ssd", "nvme"], ..BASE },
    Scenario { name: "ssd-nvme-random-64k", models: &["ssd", "nvme"], shape: Shape::Random64k, size_mib: 4096, ..BASE },
    Scenario { name: "ssd-nvme-latency-4k", models: &["ssd", "nvme"], shape: Shape::Latency4k, size_mib: 200, ..BASE },
    Scenario { name: "one-slow", events: &["0s devid=2 latency=x20"], size_mib: 200, ..VM },
    Scenario { name: "one-slow-for-2s", events: &["2s devid=2 latency=x20", "4s devid=2 recover"], ..VM },
    Scenario { name: "one-failing", events: &["1s devid=2 fail"], size_mib: 300, ..VM },
    Scenario { name: "one-failing-for-2s", events: &["2s devid=2 fail", "4s devid=2 recover"], ..VM },
    Scenario { name: "hdd-1-stream", ..HDD },
    Scenario { name: "hdd-2-streams", jobs: 2, ..HDD },
    Scenario { name: "hdd-8-streams", jobs: 8, ..HDD },
    Scenario { name: "hdd-random-4k", shape: Shape::Random4k, size_mib: 40, iodepth: 8, ..HDD },
    Scenario { name: "hdd-scrub-one", shape: Shape::ScrubOne, size_mib: 16 << 10, ..HDD },
    Scenario { name: "raid1c3-random-4k", models: &["nvme", "nvme", "nvme"], layout: Layout::Mirrored(3), ..BASE },
    Scenario {
        name: "raid10-sequential",
        models: &["vm", "vm", "vm", "vm"],
        layout: Layout::StripedPairs,
        shape: Shape::Sequential,
        size_mib: 1024,
        iodepth: 0,
        ..VM
    },
];

impl Scenario {
    /// The scenario as something to run. An error means that the table above names a model that is not built in.
    pub fn setup(&self) -> Result<Setup, UnknownModel> {
        let area = vec![Logical::new(0)..Logical::new(AREA_BYTES)];
        let mut workload = Workload::new(self.shape, self.size_mib * MIB, area);
        if self.jobs > 0 {
            workload.jobs = self.jobs;
        }
        if self.iodepth > 0 {
            workload.iodepth = self.iodepth;
        }
        Ok(Setup {
            models: self.models.iter().map(|name| DeviceModel::built_in(name)).collect::<Result<_, _>>()?,
            layout: self.layout,
            workload,
            events: self.events.iter().filter_map(|text| text.parse::<Event>().ok()).collect(),
        })
    }

    /// The scenario of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_can_be_set_up_with_all_of_its_events() {
        for scenario in SCENARIOS {
            let setup = scenario.setup().unwrap();
            assert_eq!(setup.events.len(), scenario.events.len(), "{}", scenario.name);
            assert!(setup.workload.size_bytes <= AREA_BYTES, "{}", scenario.name);
        }
    }
}

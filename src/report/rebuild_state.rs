//! How far a rebuild has come, as a JSON file: the state of a scrub, and which member it is about.

use super::state::{State, StateError, history_of};
use crate::rebuild::RebuildState;
use crate::units::{DeviceId, Generation};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The file's content.
pub fn write_rebuild_state(state: &RebuildState) -> Result<Vec<u8>, serde_json::Error> {
    let member =
        Member { devid: state.devid.raw(), uuid: state.uuid, generation: state.generation.raw(), run: state.run };
    let mut bytes = serde_json::to_vec_pretty(&Document { rebuild: member, state: State::new(&state.history) })?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads what [`write_rebuild_state`] wrote.
pub fn read_rebuild_state(bytes: &[u8]) -> Result<RebuildState, StateError> {
    let history = history_of(bytes)?;
    let SavedDocument { rebuild: member } = serde_json::from_slice(bytes)?;
    Ok(RebuildState {
        history,
        devid: DeviceId::new(member.devid),
        uuid: member.uuid,
        generation: Generation::new(member.generation),
        run: member.run,
    })
}

#[derive(Serialize, Deserialize)]
struct Member {
    devid: u64,
    uuid: Uuid,
    generation: u64,
    run: Uuid,
}

#[derive(Serialize)]
struct Document {
    rebuild: Member,
    #[serde(flatten)]
    state: State,
}

#[derive(Deserialize)]
struct SavedDocument {
    rebuild: Member,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scrub::history::History;
    use std::time::SystemTime;

    #[test]
    fn what_is_written_is_read_back_and_a_scrub_state_is_not_one() {
        let mut history = History::new(Uuid::from_u128(1));
        history.begin(String::new(), crate::scrub::commit::Commit::default(), SystemTime::UNIX_EPOCH);
        let state = RebuildState {
            history: history.clone(),
            devid: DeviceId::new(3),
            uuid: Uuid::from_u128(2),
            generation: Generation::new(9),
            run: Uuid::from_u128(4),
        };
        let back = read_rebuild_state(&write_rebuild_state(&state).unwrap()).unwrap();
        assert_eq!(
            (back.devid, back.uuid, back.generation, back.run),
            (state.devid, state.uuid, state.generation, state.run)
        );
        assert_eq!(back.history.fsid, history.fsid);
        assert!(read_rebuild_state(&super::super::write_state(&history).unwrap()).is_err());
    }
}

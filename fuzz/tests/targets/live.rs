//! What a congestion point does with frames of anybody's making.

use bolero::{check, TypeGenerator};
use tailback_fuzz::{Clock, Span};
use tailback_live::direction::{Direction, Output};
use tailback_live::events::{Action, EventSettings};
use tailback_live::settings::{EcnSettings, PfcSettings, PointSettings};
use tailback_proto::wire::{MacAddress, Pfc};

const RXE: &[u8] = include_bytes!("../../../crates/proto/tests/data/rxe_write.pcap");

/// Frames that come go on, are dropped with a reason, or wait; nothing waits beyond the buffer.
#[test]
fn direction() {
    #[derive(Debug, TypeGenerator)]
    enum Input {
        Bytes(Vec<u8>),
        /// A real packet, with a byte changed.
        Packet(u8, u8, u8),
        Pause(u8, u16),
        Advance,
    }
    check!().with_type::<(u16, bool, Vec<(Span, Input)>)>().for_each(|(buffer, pfc, inputs)| {
        let event = |action, nth| EventSettings {
            action,
            direction: None,
            qp: None,
            nth: Some(nth),
            psn: None,
            delay_ps: 1_000_000,
            packets: 2,
        };
        let settings = PointSettings {
            rate_bps: 1_000_000_000,
            delay_ps: 500,
            buffer_bytes: *buffer as u64,
            ecn: Some(EcnSettings { k_min_bytes: 1000, k_max_bytes: 3000, p_max: 0.5 }),
            pfc: pfc.then_some(PfcSettings { xoff_bytes: 2000, xon_bytes: 1000, priority: 3, quanta: 100 }),
            loss: 0.1,
            seed: 1,
            events: vec![
                event(Action::Drop, 1),
                event(Action::Corrupt, 2),
                event(Action::Reorder, 3),
                event(Action::Delay, 4),
                event(Action::Mark, 5),
            ],
        };
        let mut direction = Direction::new(&settings, 0, MacAddress([2; 6]));
        let mut clock = Clock::default();
        let (mut came, mut left) = (0u64, 0u64);
        for (span, input) in inputs {
            let now = clock.pass(*span);
            match input {
                Input::Bytes(bytes) => {
                    came += 1;
                    direction.on_frame(now, bytes.clone());
                }
                Input::Packet(which, at, byte) => {
                    came += 1;
                    // The first frames of the capture are 1,082 bytes long, each behind 16 of its own.
                    let begin = 24 + 16 + (*which as usize % 4) * (1082 + 16);
                    let mut frame = RXE[begin..begin + 1082].to_vec();
                    frame[*at as usize] ^= byte;
                    direction.on_frame(now, frame);
                }
                Input::Pause(classes, quanta) => {
                    let frame =
                        Pfc { source: MacAddress([2; 6]), class_enable_vector: *classes, time: [*quanta; 8] };
                    direction.on_pause(now, &frame);
                }
                Input::Advance => direction.advance(now),
            }
            while let Some(output) = direction.next_output() {
                left += matches!(output, Output::Forward(..)) as u64;
            }
            assert!(direction.queued_bytes() <= *buffer as u64);
        }
        assert_eq!(direction.counters.rx_frames, came);
        assert_eq!(direction.counters.tx_frames, left);
        assert!(left + direction.counters.dropped() <= came);
    });
}

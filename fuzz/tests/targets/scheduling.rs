//! Whose turn it is, and how often to interrupt.

use bolero::{check, TypeGenerator};
use tailback_fuzz::{Clock, Magnitude, Span};
use tailback_proto::interrupts::{Dim, Sample, EVENTS_PER_SAMPLE, PROFILES};
use tailback_proto::scheduling::{pick_round_robin, Ets};

/// Who is picked has something to send, strict classes go first, and a class with a share is served within bounds.
#[test]
fn ets() {
    #[derive(Debug, TypeGenerator)]
    struct Turn {
        eligible: u8,
        bytes: u16,
    }
    check!().with_type::<(u8, [u32; 8], Vec<Turn>)>().for_each(|&(strict, weights, ref turns)| {
        let weights = weights.map(|weight| weight % 101);
        let mut ets = Ets::new(strict, weights);
        let shared = |class: u8| strict & (1 << class) == 0 && weights[class as usize] > 0;
        let with_share = (0..8).filter(|&class| shared(class)).fold(0u8, |mask, class| mask | 1 << class);
        let mut last = 7;
        for turn in turns.iter().filter(|turn| turn.eligible != 0) {
            for (class, by_weight) in
                [(ets.pick(turn.eligible), true), (pick_round_robin(turn.eligible, strict, last), false)]
            {
                let picked = 1u8 << class;
                assert_ne!(turn.eligible & picked, 0, "class {class} has nothing to send");
                let first = turn.eligible & strict;
                assert!(first == 0 || first >> class == 1, "{first:#b} go before class {class}");
                if by_weight && first == 0 && turn.eligible & with_share != 0 {
                    assert_ne!(picked & with_share, 0, "class {class} has no share, and others wait");
                }
                last = class;
            }
            let class = ets.pick(turn.eligible);
            assert_eq!(ets.pick(turn.eligible), class, "nothing was sent: it is still its turn");
            ets.on_sent(class, turn.bytes as u32);
        }
    });
}

/// The profile is one of those that there are, and moves a step at a time, by 64 interrupts at least.
#[test]
fn dim() {
    type Poll = (Span, Magnitude<16>, Magnitude<32>, Magnitude<40>);
    check!().with_type::<Vec<Poll>>().for_each(|polls| {
        let mut dim = Dim::default();
        let mut clock = Clock::default();
        let mut sample = Sample::default();
        let mut since_decision = 0;
        for (span, events, packets, bytes) in polls {
            sample.events += events.get();
            sample.packets += packets.get();
            sample.bytes += bytes.get();
            since_decision += events.get();
            let before = dim.profile();
            let changed = dim.on_poll_complete(clock.pass(*span), sample);
            assert!(dim.profile() < PROFILES);
            assert_eq!(changed, dim.profile() != before);
            assert!(before.abs_diff(dim.profile()) <= 1);
            if changed {
                assert!(since_decision >= EVENTS_PER_SAMPLE);
                since_decision = 0;
            }
        }
    });
}

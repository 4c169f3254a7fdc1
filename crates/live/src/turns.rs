//! One clock for several programs on a machine: a congestion point leads, and programs with end points follow
//! it.
//!
//! Programs that share cores do not run at the same time. With a clock of its own, each would find that time
//! went on while it waited for a core: its queue has drained, or its timers have fired. Here time passes in
//! turns. In a turn, every program reads what has come, handles what is due, and sends. When all have
//! reported that they are done, the leader announces the time of the next turn. So a program that gets no
//! core holds up the clock for all: a run takes longer, but what happens in it stays the same. A frame is
//! late by a turn or two.
//!
//! The programs talk over a socket in the file system: it closes when its program ends, however that happens,
//! and it reaches other network namespaces. A follower sends one byte when it is done; the leader sends the
//! time, in eight bytes. The clock starts when the expected number of followers has come. A follower that
//! leaves is no longer waited for. When all have left, the clock stands still until as many follow again.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tailback_proto::units::{Rate, Time};

/// A turn lasts as long as this many bytes take on the point's link: about a packet.
const TURN_BYTES: u64 = 1000;
/// How long to wait for another program before looking for signals.
const PATIENCE: Duration = Duration::from_millis(50);
/// Time between two looks for a follower or for the leader.
const LOOK: Duration = Duration::from_millis(2);
/// How much earlier than its leader a follower may be started.
const LEADER_WITHIN: Duration = Duration::from_secs(10);

/// The leader's end of the clock.
#[derive(Debug)]
pub struct Lead {
    listener: UnixListener,
    path: PathBuf,
    expected: usize,
    followers: Vec<Follower>,
    runs: bool,
    now: Time,
    turn: Time,
}

#[derive(Debug)]
struct Follower {
    stream: UnixStream,
    is_done: bool,
}

impl Lead {
    /// Makes the socket file, for `expected` followers. A file that a killed program left behind is replaced.
    ///
    /// # Errors
    /// The file cannot be made, or another program leads there.
    pub fn new(path: &str, expected: usize, rate: Rate) -> io::Result<Lead> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket && UnixStream::connect(path).is_err() {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Lead {
            listener,
            path: Path::new(path).to_owned(),
            expected,
            followers: Vec::new(),
            runs: false,
            now: Time::ZERO,
            turn: rate.serialization(TURN_BYTES).max(Time(1)),
        })
    }

    /// The time of this turn.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Ends the leader's turn. Returns the time of the next turn. None: others are not done, or are not there
    /// yet.
    pub fn next_turn(&mut self) -> Option<Time> {
        if !self.gathered() {
            sleep(LOOK);
            return None;
        }
        for follower in &mut self.followers {
            if !follower.is_done && matches!(follower.hear(), Heard::Nothing) {
                return None;
            }
        }
        self.followers.retain(|follower| follower.is_done);
        self.now += self.turn;
        let told = self.now.ps().to_le_bytes();
        self.followers.retain_mut(|follower| {
            follower.is_done = false;
            follower.stream.write_all(&told).is_ok()
        });
        Some(self.now)
    }

    /// True if the clock runs. Lets followers join until it does.
    fn gathered(&mut self) -> bool {
        if self.runs && self.followers.is_empty() {
            self.runs = false;
        }
        while !self.runs {
            let Ok((stream, _)) = self.listener.accept() else { return false };
            if stream.set_nonblocking(false).and(stream.set_read_timeout(Some(PATIENCE))).is_err() {
                continue;
            }
            self.followers.push(Follower { stream, is_done: false });
            self.runs = self.followers.len() >= self.expected;
        }
        true
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

enum Heard {
    Done,
    Left,
    Nothing,
}

impl Follower {
    fn hear(&mut self) -> Heard {
        match self.stream.read(&mut [0]) {
            Ok(1) => {
                self.is_done = true;
                Heard::Done
            }
            Err(error) if is_early(&error) => Heard::Nothing,
            _ => Heard::Left,
        }
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// A follower's end of the clock.
#[derive(Debug)]
pub struct Follow {
    stream: UnixStream,
    /// True if it has reported that it is done.
    waits: bool,
    begin: Option<Time>,
}

impl Follow {
    /// Follows the leader at a socket file.
    ///
    /// # Errors
    /// Nobody leads there.
    pub fn new(path: &str) -> io::Result<Follow> {
        let until = Instant::now() + LEADER_WITHIN;
        let stream = loop {
            match UnixStream::connect(path) {
                Err(error) if is_no_leader(&error) && Instant::now() < until => sleep(LOOK),
                other => break other?,
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Follow { stream, waits: false, begin: None })
    }

    /// Ends the follower's turn. Returns the time of the next turn, counted from the first time that it was
    /// told. None: others are not done.
    ///
    /// # Errors
    /// The leader has ended.
    pub fn next_turn(&mut self) -> io::Result<Option<Time>> {
        let ended = |_| io::Error::other("the congestion point that led it has ended");
        if !self.waits {
            self.stream.write_all(&[1]).map_err(ended)?;
            self.waits = true;
        }
        let mut told = [0; 8];
        match self.stream.read_exact(&mut told) {
            Err(error) if is_early(&error) => return Ok(None),
            other => other.map_err(ended)?,
        }
        self.waits = false;
        let now = Time(u64::from_le_bytes(told));
        Ok(Some(now - *self.begin.get_or_insert(now)))
    }
}

fn is_no_leader(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> String {
        let name = format!("tailback-turns-{name}-{}", std::process::id());
        std::env::temp_dir().join(name).into_os_string().into_string().unwrap()
    }

    #[test]
    fn nobody_is_a_turn_ahead_and_who_leaves_is_not_waited_for() {
        let path = place("two");
        // 1,000 B at 8 Gbit/s are a microsecond.
        let mut lead = Lead::new(&path, 2, Rate(8_000_000_000)).unwrap();
        assert!(lead.next_turn().is_none(), "nobody is there");
        let mut slow = Follow::new(&path).unwrap();
        assert!(lead.next_turn().is_none(), "one is not enough");
        let quick = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut quick = Follow::new(&path).unwrap();
                let mut told = Vec::new();
                while told.len() < 4 {
                    told.extend(quick.next_turn().unwrap());
                }
                told
            }
        });
        // Its first turn: it reports that it is ready, and hears the time once all are.
        while slow.next_turn().unwrap().is_none() {
            lead.next_turn();
        }
        let began = lead.now();
        assert!(lead.next_turn().is_none(), "the slow one is not done");
        assert_eq!(lead.now(), began);
        while slow.next_turn().unwrap().is_none() {
            lead.next_turn();
        }
        assert_eq!(lead.now(), began + Time::from_us(1));
        drop(slow);
        let told = loop {
            lead.next_turn();
            if quick.is_finished() {
                break quick.join().unwrap();
            }
        };
        assert_eq!(told, [0, 1, 2, 3].map(Time::from_us));
        while lead.next_turn().is_some() {}
        let stands = lead.now();
        assert!(lead.next_turn().is_none());
        assert_eq!(lead.now(), stands, "all have left");
    }

    #[test]
    fn a_follower_hears_that_its_leader_has_ended() {
        let path = place("ends");
        let mut lead = Lead::new(&path, 1, Rate(8_000_000_000)).unwrap();
        let mut follow = Follow::new(&path).unwrap();
        while follow.next_turn().unwrap().is_none() {
            lead.next_turn();
        }
        drop(lead);
        assert!(!Path::new(&path).exists());
        assert!(follow.next_turn().unwrap_err().to_string().contains("has ended"));
    }

    #[test]
    fn a_file_is_taken_only_from_a_leader_that_is_gone() {
        let path = place("left");
        drop(UnixListener::bind(&path).unwrap()); // leaves its file, as a killed program does
        let lead = Lead::new(&path, 1, Rate(1000)).unwrap();
        assert!(Lead::new(&path, 1, Rate(1000)).is_err(), "it leads");
        drop(lead);
        fs::write(&path, "somebody's").unwrap();
        assert!(Lead::new(&path, 1, Rate(1000)).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
        fs::remove_file(&path).unwrap();
    }
}

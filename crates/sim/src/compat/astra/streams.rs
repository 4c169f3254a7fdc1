//! Streams take turns. In each queue a number of them run at the same time. A new one waits behind all that have begun,
//! and behind those of the same or a higher priority.

use super::phases::{Machine, Phase};

/// A chunk of a collective on its way through its phases.
#[derive(Debug)]
pub(super) struct Stream {
    /// Tag of its messages.
    pub tag: i32,
    pub priority: i32,
    /// The collective's node.
    pub node: u64,
    /// Phases to come, in reverse order.
    pub phases: Vec<Phase>,
    /// The queue that it is in.
    pub queue: Option<u32>,
    begun: bool,
    /// Its current phase; `None` while that acts.
    pub machine: Option<Machine>,
}

impl Stream {
    pub fn new(tag: i32, priority: i32, node: u64, phases: Vec<Phase>) -> Stream {
        Stream { tag, priority, node, phases, queue: None, begun: false, machine: None }
    }
}

#[derive(Clone, Debug, Default)]
struct Queue {
    streams: Vec<u32>,
    running: usize,
}

/// A rank's streams and queues.
#[derive(Debug)]
pub(super) struct Streams {
    slots: Vec<Stream>,
    free: Vec<u32>,
    queues: Vec<Queue>,
    most_running: usize,
}

impl Streams {
    pub fn new(queues: usize, most_running: u32) -> Streams {
        let queues = vec![Queue::default(); queues];
        Streams { slots: Vec::new(), free: Vec::new(), queues, most_running: most_running as usize }
    }

    pub fn add(&mut self, stream: Stream) -> u32 {
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = stream;
            return at;
        }
        self.slots.push(stream);
        self.slots.len() as u32 - 1
    }

    pub fn remove(&mut self, at: u32) {
        self.free.push(at);
    }

    pub fn get(&mut self, at: u32) -> &mut Stream {
        &mut self.slots[at as usize]
    }

    /// Takes a stream out of its queue. Its turn there is not free yet.
    pub fn leave(&mut self, at: u32) {
        if let Some(queue) = self.slots[at as usize].queue {
            self.queues[queue as usize].streams.retain(|&stream| stream != at);
        }
    }

    /// Puts a stream into the queue of its next phase. False: there is no next phase.
    pub fn enter_next(&mut self, at: u32) -> bool {
        let stream = &mut self.slots[at as usize];
        let Some(Phase { queue, machine }) = stream.phases.pop() else { return false };
        stream.queue = Some(queue);
        stream.machine = Some(machine);
        stream.begun = false;
        let priority = stream.priority;
        let queue = &mut self.queues[queue as usize].streams;
        let goes_before = |&other: &u32| {
            let other = &self.slots[other as usize];
            !other.begun && other.priority < priority
        };
        let place = queue.iter().position(goes_before).unwrap_or(queue.len());
        queue.insert(place, at);
        true
    }

    /// Frees a turn of a queue.
    pub fn free_turn(&mut self, queue: u32) {
        self.queues[queue as usize].running -= 1;
    }

    /// Begins the next stream of a queue, if one may begin.
    pub fn next_to_begin(&mut self, queue: u32) -> Option<u32> {
        let queue = &mut self.queues[queue as usize];
        if queue.running >= self.most_running {
            return None;
        }
        let at = *queue.streams.get(queue.running)?;
        queue.running += 1;
        self.slots[at as usize].begun = true;
        Some(at)
    }
}

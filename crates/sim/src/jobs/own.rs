//! Graphs that a user gave: checked, and put into an order of their own.
//!
//! What is ready at the same instant begins in the order of numbers. So that nothing depends on how a graph was listed,
//! operations are numbered by what they are and by what surrounds them, and not by their places in the list.

use super::graph::{Graph, Operation, Waiting};
use crate::engine::mix;
use crate::plan::{Operations, What};

/// The graph of operations that a plan gives, for ranks 0 to `ranks` - 1.
///
/// # Errors
/// One line.
pub(super) fn graph(operations: &Operations, ranks: usize) -> Result<Graph, String> {
    (0..operations.len()).try_for_each(|number| check(operations, number, ranks))?;
    let listed = listed(operations);
    if let Some(circle) = listed.circle() {
        let list: Vec<String> = circle.iter().take(20).map(u32::to_string).collect();
        let more = if circle.len() > list.len() { ", ..." } else { "" };
        return Err(format!("operations {}{more} wait for each other in a circle", list.join(", ")));
    }
    let places = places(listed, operations);
    let mut number_of = vec![0; places.len()];
    (0..).zip(&places).for_each(|(number, &place)| number_of[place as usize] = number);
    let after = |(number, &place): (u32, &u32)| {
        operations.after(place as usize).map(|one| number_of[one as usize]).zip(std::iter::repeat(number))
    };
    let waiting = Waiting::new(places.len(), (0..).zip(&places).flat_map(after));
    drop(number_of);
    let operation = |&place: &u32| {
        let (rank, what) = operations.get(place as usize).expect("it is one of them");
        Operation { rank, what }
    };
    let mut graph = Graph::new(places.iter().map(operation).collect(), waiting, ranks);
    graph.places = places;
    Ok(graph)
}

/// Places of operations that wait for each other in a circle, the first one first; none: there are none.
pub fn circle(operations: &Operations) -> Option<Vec<u32>> {
    listed(operations).circle()
}

/// What waits for what, as they are listed.
fn listed(operations: &Operations) -> Waiting {
    let after = |place: usize| operations.after(place).zip(std::iter::repeat(place as u32));
    Waiting::new(operations.len(), (0..operations.len()).flat_map(after))
}

fn check(operations: &Operations, number: usize, ranks: usize) -> Result<(), String> {
    let (rank, what) = operations.get(number).expect("it is one of them");
    if rank as usize >= ranks {
        return Err(format!("operation {number}: rank {rank} is not one of {ranks}"));
    }
    if let What::Send { to, bytes, .. } = what {
        if to as usize >= ranks || to == rank || bytes == 0 {
            return Err(format!("operation {number}: expected bytes to another rank below {ranks}"));
        }
    }
    for one in operations.after(number) {
        let Some((of, other)) = operations.get(one as usize) else {
            return Err(format!("operation {number} waits for {one}, of {}", operations.len()));
        };
        let by_message = matches!(other, What::Send { to, .. } if to == rank);
        let by_barrier = matches!(what, What::Barrier) || matches!(other, What::Barrier);
        if of != rank && !by_message && !by_barrier {
            return Err(format!(
                "operation {number} waits for {one}, which is of another rank and no message to this one"
            ));
        }
    }
    Ok(())
}

/// Places of the list in the order of numbers: by what an operation is and all that it waits for, and then by what waits
/// for it. Operations that are alike in both may take each other's place.
fn places(listed: Waiting, operations: &Operations) -> Vec<u32> {
    let count = operations.len();
    let mut waits = listed.waits();
    let mut order: Vec<u32> = (0..count as u32).filter(|&one| waits[one as usize] == 0).collect();
    let mut at = 0;
    while at < order.len() {
        for &next in listed.after(order[at]) {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                order.push(next);
            }
        }
        at += 1;
    }
    let mut before = vec![0u64; count];
    for &one in &order {
        let (rank, what) = operations.get(one as usize).expect("it is one of them");
        let hashes = operations.after(one as usize).map(|other| before[other as usize]).collect();
        before[one as usize] = together(own_hash(rank, &what), hashes);
    }
    let mut both = vec![0u64; count];
    for &one in order.iter().rev() {
        let hashes = listed.after(one).iter().map(|&other| both[other as usize]).collect();
        both[one as usize] = together(before[one as usize], hashes);
    }
    let mut places: Vec<u32> = (0..count as u32).collect();
    places.sort_by_key(|&place| (before[place as usize], both[place as usize]));
    places
}

fn own_hash(rank: u32, what: &What) -> u64 {
    let [kind, a, b, c] = match *what {
        What::Compute(ps) => [1, ps, 0, 0],
        What::Reduce(bytes) => [2, bytes, 0, 0],
        What::Send { to, bytes, channel } => [3, to as u64, bytes, channel as u64],
        What::Receive => [4, 0, 0, 0],
        What::Barrier => [5, 0, 0, 0],
    };
    [rank as u64, kind, a, b, c].into_iter().fold(0, |hash, part| mix(hash ^ mix(part + 1)))
}

/// A hash of something and of others in whatever order.
fn together(own: u64, mut others: Vec<u64>) -> u64 {
    others.sort_unstable();
    others.into_iter().fold(mix(own), |hash, other| mix(hash.rotate_left(1) ^ other))
}

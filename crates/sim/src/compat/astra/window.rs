//! A rank's trace. Only nodes that may begin or run are in memory.
//!
//! A trace is read twice: as a whole before the run, which finds all errors, and again during the run, a block of nodes at a
//! time. Every node whose parents have ended must be in memory, as if the whole trace were. So before the run, all blocks
//! with a node that waits for nothing are read, and when a node begins, all blocks with a node that waits for one of its
//! block. A node that has ended is forgotten.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::free::Free;
use super::phases::Asked;
use super::plan::AstraPlan;
use super::trace::{unreadable, Groups, Need, Node, Nodes, Task};
use crate::engine::NumberMap;

/// Nodes in a block; more where a file is not in the order of ids. 1,024 ranks with two blocks each take some 70 MB.
const BLOCK_NODES: u64 = 256;

/// Consecutive nodes of the file. Their ids are above those of all earlier blocks.
#[derive(Debug)]
struct Block {
    /// Its place in the file.
    at: u64,
    nodes: u64,
    /// The highest id.
    last: u64,
    /// The last block with a node that waits for a node of this one.
    reach: u32,
}

/// A node in memory.
#[derive(Debug)]
pub(super) struct Held {
    pub need: Need,
    pub task: Task,
    block: u32,
    /// How many nodes it waits for.
    waits_for: u32,
    /// The nodes that wait for it.
    children: Vec<u64>,
}

/// The nodes of a trace that are in memory, by id.
#[derive(Debug)]
pub(super) struct Window {
    path: PathBuf,
    /// Metadata of the file when it was checked.
    known: Metadata,
    blocks: Vec<Block>,
    /// Number of blocks read.
    read: usize,
    nodes: NumberMap<u64, Held>,
    /// For nodes that have not been read, by id: the nodes that wait for them.
    ahead: NumberMap<u64, Vec<u64>>,
}

/// A trace without errors.
pub(super) struct Checked {
    pub window: Window,
    /// Nodes that wait for nothing.
    pub free: Free,
    /// Groups that it defines, in the order of ids.
    pub groups: Groups,
    /// The different collectives, each with the lowest id of its nodes.
    pub collectives: HashMap<Asked, u64>,
}

/// Checks a rank's trace, and reads the blocks that must be in memory when the run begins.
///
/// # Errors
/// One line with node and field.
pub(super) fn open(path: &Path, plan: &AstraPlan, rank: u32) -> Result<Checked, String> {
    let in_order = look_through(path, plan, rank, Order::default())?;
    let mut found = match in_order {
        Some(found) => found,
        None => look_through(path, plan, rank, Order { all: Some(Vec::new()), ..Order::default() })?
            .expect("any order will do"),
    };
    let first = found.order.check()?;
    let mut window = Window {
        path: path.to_owned(),
        known: found.known,
        blocks: found.order.blocks,
        read: 0,
        nodes: NumberMap::default(),
        ahead: NumberMap::default(),
    };
    window.read(first, plan, rank)?;
    let mut free = Free::default();
    window
        .nodes
        .iter()
        .filter(|(_, node)| node.waits_for == 0)
        .for_each(|(&id, node)| free.add(id, node.need));
    found.groups.sort_by_key(|group| group.0);
    let groups = found.groups.into_iter().flat_map(|(_, defined)| defined).collect();
    Ok(Checked { window, free, groups, collectives: found.collectives })
}

/// The contents of a file.
struct Found {
    known: Metadata,
    order: Order,
    /// By the id of the node that defines them.
    groups: Vec<(u64, Groups)>,
    collectives: HashMap<Asked, u64>,
}

/// Reads all nodes; `None` where they are not in the expected order.
fn look_through(path: &Path, plan: &AstraPlan, rank: u32, mut order: Order) -> Result<Option<Found>, String> {
    let file = File::open(path).map_err(unreadable)?;
    let known = file.metadata().map_err(unreadable)?;
    let mut nodes = Nodes::new(BufReader::new(file), (0, known.len()), plan, rank);
    nodes.metadata()?;
    let (mut groups, mut collectives) = (Vec::new(), HashMap::new());
    let mut at = nodes.at;
    while let Some(node) = nodes.next()? {
        if !order.add(at, node.id, &node.parents) {
            return Ok(None);
        }
        match node.task {
            Task::Groups(defined) => groups.push((node.id, defined)),
            Task::Collective(asked) => {
                let lowest = collectives.entry(*asked).or_insert(node.id);
                *lowest = node.id.min(*lowest);
            }
            _ => {}
        }
        at = nodes.at;
    }
    Ok(Some(Found { known, order, groups, collectives }))
}

impl Window {
    /// A node that has not ended.
    pub fn get(&self, id: u64) -> Option<&Held> {
        self.nodes.get(&id)
    }

    /// Call before a node begins: reads the nodes that may begin once it has ended.
    ///
    /// # Errors
    /// One line, where the file is no longer what it was.
    pub fn begins(&mut self, id: u64, plan: &AstraPlan, rank: u32) -> Result<(), String> {
        let reach = self.nodes.get(&id).map_or(0, |node| self.blocks[node.block as usize].reach);
        self.read(reach as usize + 1, plan, rank)
    }

    /// Forgets a node that has ended. Nodes that waited for nothing else become `free`.
    pub fn ends(&mut self, id: u64, free: &mut Free) -> Option<Held> {
        let ended = self.nodes.remove(&id)?;
        for &child in &ended.children {
            let Some(node) = self.nodes.get_mut(&child) else { continue };
            node.waits_for -= 1;
            if node.waits_for == 0 {
                free.add(child, node.need);
            }
        }
        Some(ended)
    }

    /// Reads on until this number of blocks has been read.
    fn read(&mut self, blocks: usize, plan: &AstraPlan, rank: u32) -> Result<(), String> {
        if blocks <= self.read {
            return Ok(());
        }
        let mut file = File::open(&self.path).map_err(unreadable)?;
        let now = file.metadata().map_err(unreadable)?;
        let known = &self.known;
        if now.len() != known.len() || now.modified().ok() != known.modified().ok() {
            return Err(
                "expected a file that stays as it is during the run, found that it was changed".into()
            );
        }
        let place = |block: usize| self.blocks.get(block).map_or(known.len(), |block| block.at);
        let part = (place(self.read), place(blocks));
        file.seek(SeekFrom::Start(part.0)).map_err(unreadable)?;
        let mut nodes = Nodes::new(BufReader::new(file), part, plan, rank);
        for block in self.read..blocks {
            let mut own = Vec::with_capacity(self.blocks[block].nodes as usize);
            for _ in 0..self.blocks[block].nodes {
                own.extend(nodes.next()?);
            }
            own.sort_by_key(|node| node.id);
            own.into_iter().for_each(|node| self.hold(node, block as u32));
        }
        self.read = blocks;
        Ok(())
    }

    /// Adds a node. Blocks come in the order of ids, so a missing node with a lower id has ended.
    fn hold(&mut self, node: Node, block: u32) {
        let mut waits_for = 0;
        for parent in node.parents {
            let children = match self.nodes.get_mut(&parent) {
                Some(held) => &mut held.children,
                None if parent > node.id => self.ahead.entry(parent).or_default(),
                None => continue,
            };
            children.push(node.id);
            waits_for += 1;
        }
        let children = self.ahead.remove(&node.id).unwrap_or_default();
        self.nodes.insert(node.id, Held { need: node.need, task: node.task, block, waits_for, children });
    }
}

/// Which nodes there are, and what they wait for. In most traces nodes are in the order of ids, and wait only for nodes
/// before them: then only blocks and ids are kept.
#[derive(Default)]
struct Order {
    blocks: Vec<Block>,
    /// Where nodes are in order: ranges of ids without a gap, by first and last id.
    ids: Vec<(u64, u64)>,
    /// Number of blocks up to the last one with a node that waits for nothing.
    first: usize,
    /// Where nodes are in any order: ids, each with what the node waits for.
    all: Option<Vec<(u64, Box<[u64]>)>>,
}

impl Order {
    /// Adds a node. False: it is not in order.
    fn add(&mut self, at: u64, id: u64, parents: &[u64]) -> bool {
        if let Some(all) = &mut self.all {
            all.push((id, parents.into()));
            self.put(at, id);
            return true;
        }
        match self.ids.last_mut() {
            Some((_, last)) if *last >= id => return false,
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => self.ids.push((id, id)),
        }
        self.put(at, id);
        let block = self.blocks.len() - 1;
        if parents.is_empty() {
            self.first = block + 1;
        }
        parents.iter().all(|&parent| {
            let run = self.ids.partition_point(|ids| ids.1 < parent);
            let is_there = parent < id && self.ids[run].0 <= parent;
            if is_there {
                self.waits(block, parent);
            }
            is_there
        })
    }

    /// Puts a node into the last block, or into a new one.
    fn put(&mut self, at: u64, id: u64) {
        match self.blocks.last_mut() {
            Some(block) if block.nodes < BLOCK_NODES => {
                block.nodes += 1;
                block.last = block.last.max(id);
            }
            _ => self.blocks.push(Block { at, nodes: 1, last: id, reach: 0 }),
        }
        while let [.., before, block] = &mut self.blocks[..] {
            if before.last < id {
                break;
            }
            (before.nodes, before.last) = (before.nodes + block.nodes, before.last.max(block.last));
            self.blocks.pop();
        }
    }

    /// A node of a block waits for another.
    fn waits(&mut self, block: usize, parent: u64) {
        let of_parent = self.blocks.partition_point(|block| block.last < parent);
        let reach = &mut self.blocks[of_parent].reach;
        *reach = (*reach).max(block as u32);
    }

    /// Number of blocks up to the last one with a node that waits for nothing.
    ///
    /// # Errors
    /// One line, where an id occurs twice, a parent does not exist, or nodes wait for each other.
    fn check(&mut self) -> Result<usize, String> {
        let Some(mut nodes) = self.all.take() else { return Ok(self.first) };
        nodes.sort_by_key(|node| node.0);
        if let Some(twice) = nodes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("node {}: expected one node of this id, found more", twice[0].0));
        }
        let mut block = 0;
        for (id, parents) in &nodes {
            while self.blocks[block].last < *id {
                block += 1;
            }
            if parents.is_empty() {
                self.first = block + 1;
            }
            for &parent in parents {
                if nodes.binary_search_by_key(&parent, |node| node.0).is_err() {
                    return Err(format!("node {id}: depends on node {parent}, which is not in the file"));
                }
                self.waits(block, parent);
            }
        }
        match circle(&nodes) {
            Some(ids) if ids.contains(',') => Err(format!("nodes {ids} wait for each other in a circle")),
            Some(id) => Err(format!("node {id}: depends on itself")),
            None => Ok(self.first),
        }
    }
}

/// Most ids of a circle that a message names.
const MOST_NAMED: usize = 8;

/// Ids of nodes that wait for each other, if any do. `nodes`: ids in order, each with what the node waits for.
fn circle(nodes: &[(u64, Box<[u64]>)]) -> Option<String> {
    let place = |id: &u64| nodes.partition_point(|node| node.0 < *id);
    let parents_of = |own: usize| nodes[own].1.iter().map(place);
    let mut first = vec![0; nodes.len() + 1];
    (0..nodes.len()).flat_map(parents_of).for_each(|parent| first[parent + 1] += 1);
    for place in 0..nodes.len() {
        first[place + 1] += first[place];
    }
    let (mut at, mut children) = (first.clone(), vec![0; first[nodes.len()]]);
    for own in 0..nodes.len() {
        for parent in parents_of(own) {
            children[at[parent]] = own;
            at[parent] += 1;
        }
    }
    let mut left: Vec<usize> = nodes.iter().map(|node| node.1.len()).collect();
    let mut free: Vec<usize> = (0..nodes.len()).filter(|&place| left[place] == 0).collect();
    let mut done = 0;
    while let Some(place) = free.pop() {
        done += 1;
        for &child in &children[first[place]..first[place + 1]] {
            left[child] -= 1;
            if left[child] == 0 {
                free.push(child);
            }
        }
    }
    if done == nodes.len() {
        return None;
    }
    // Every node left waits for another one left, so following these links backwards reaches some node twice.
    let before = |own: usize| parents_of(own).filter(|&parent| left[parent] > 0).max();
    let mut at = left.iter().position(|&left| left > 0)?;
    let mut seen = vec![false; nodes.len()];
    while !std::mem::replace(&mut seen[at], true) {
        at = before(at)?;
    }
    let mut ids = vec![nodes[at].0.to_string()];
    let mut next = before(at)?;
    while next != at && ids.len() < MOST_NAMED {
        ids.push(nodes[next].0.to_string());
        next = before(next)?;
    }
    if next != at {
        ids.push("...".into());
    }
    ids.reverse();
    Some(ids.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A node that computes, as a message after its length.
    fn node(id: u64, parents: &[u64]) -> Vec<u8> {
        let mut body = Vec::new();
        let fields = [(1, id), (3, 4)].into_iter().chain(parents.iter().map(|&parent| (5, parent)));
        for (field, value) in fields {
            prost::encoding::encode_varint(field << 3, &mut body);
            prost::encoding::encode_varint(value, &mut body);
        }
        let mut message = Vec::new();
        prost::encoding::encode_varint(body.len() as u64, &mut message);
        [message, body].concat()
    }

    fn plan() -> AstraPlan {
        serde_json::from_str(
            r#"{"files": ["w.0.et"], "dims": [1], "queues_per_dim": 1, "endpoint_delay": 0, "active_chunks": 1,
                "splits": 1, "policy": "lifo", "local_bw_aware": false, "local_mem_bw": 0.0, "peak_perf": 0.0,
                "roofline": false, "replay_only": false, "groups": {}, "implementations":
                {"all_reduce": null, "all_gather": null, "reduce_scatter": null, "all_to_all": null}}"#,
        )
        .expect("it is a plan")
    }

    fn written(name: &str, nodes: &[(u64, Vec<u64>)]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tailback-window-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(name);
        let bytes: Vec<u8> = nodes.iter().flat_map(|(id, parents)| node(*id, parents)).collect();
        std::fs::write(&path, [vec![0], bytes].concat()).expect("a file");
        path
    }

    fn ids(free: &Free) -> BTreeSet<u64> {
        let next = |&last: &u64| free.next(Some(last), u64::MAX, |_| true).map(|found| found.0);
        std::iter::successors(free.first(), next).collect()
    }

    /// Ends nodes in the order in which `choose` picks free ones. Returns the most nodes that were in memory.
    fn run(path: &Path, nodes: &[(u64, Vec<u64>)], mut choose: impl FnMut(usize) -> usize) -> usize {
        let plan = plan();
        let Checked { mut window, mut free, .. } = open(path, &plan, 0).expect("it is right");
        let mut left: HashMap<u64, usize> = nodes.iter().map(|node| (node.0, node.1.len())).collect();
        let mut expected: BTreeSet<u64> =
            nodes.iter().filter(|node| node.1.is_empty()).map(|node| node.0).collect();
        let mut most = 0;
        while !expected.is_empty() {
            assert_eq!(ids(&free), expected);
            let id = *expected.iter().nth(choose(expected.len())).expect("one of them");
            free.remove(id, Need::Computing);
            window.begins(id, &plan, 0).expect("it is as it was");
            most = most.max(window.nodes.len());
            window.ends(id, &mut free).expect("it was there");
            expected.remove(&id);
            left.remove(&id);
            for (child, parents) in nodes.iter().filter(|node| node.1.contains(&id)) {
                let left = left.get_mut(child).expect("it has not ended");
                *left -= 1;
                if *left == 0 && !parents.is_empty() {
                    expected.insert(*child);
                }
            }
        }
        assert!(left.is_empty() && window.nodes.is_empty() && window.ahead.is_empty());
        most
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// In any order of nodes in a file, the free nodes are those of the whole trace.
        #[test]
        fn free_is_what_has_nothing_to_wait_for(
            count in 1usize..1500, gap in 1u64..4, back in 1usize..900, swaps in 0usize..40, seed in any::<u64>(),
        ) {
            let mut random = seed;
            let mut draw = |below: usize| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 33) as usize % below
            };
            // Dependencies have an order of their own, so a node may wait for one with a higher id.
            let mut ids: Vec<u64> = (0..count as u64).map(|id| id * gap).collect();
            for _ in 0..swaps {
                ids.swap(draw(count), draw(count));
            }
            let mut nodes: Vec<(u64, Vec<u64>)> = Vec::new();
            for place in 0..count {
                let wanted = if place < 2 { 0 } else { 1 + draw(3) };
                let mut parents: Vec<u64> =
                    (0..wanted).map(|_| ids[place - 1 - draw(back.min(place))]).collect();
                parents.sort_unstable();
                parents.dedup();
                nodes.push((ids[place], parents));
            }
            // The file is in the order of ids, except for a few nodes.
            nodes.sort_by_key(|node| node.0);
            for _ in 0..draw(3) {
                let (one, other) = (draw(count), draw(count));
                nodes.swap(one, other);
            }
            let path = written(&format!("{seed}.et"), &nodes);
            run(&path, &nodes, draw);
            std::fs::remove_file(path).expect("it was there");
        }
    }

    #[test]
    fn a_long_chain_takes_two_blocks() {
        let nodes: Vec<_> = (0..3000).map(|id: u64| (id, Vec::from_iter(id.checked_sub(1)))).collect();
        let path = written("chain.et", &nodes);
        assert!(run(&path, &nodes, |_| 0) <= 2 * BLOCK_NODES as usize);
        std::fs::remove_file(path).expect("it was there");
    }

    #[test]
    fn a_file_that_is_changed_is_noticed() {
        let nodes: Vec<_> = (0..600).map(|id: u64| (id, Vec::from_iter(id.checked_sub(1)))).collect();
        let path = written("changed.et", &nodes);
        let mut window = open(&path, &plan(), 0).expect("it is right").window;
        written("changed.et", &nodes[..599]);
        assert!(window.begins(0, &plan(), 0).unwrap_err().contains("found that it was changed"));
        std::fs::remove_file(path).expect("it was there");
    }
}

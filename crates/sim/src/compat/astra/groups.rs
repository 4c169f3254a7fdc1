//! Rings and trees: the ranks of a phase, and their neighbours.

use std::sync::Arc;

use super::plan::{Algorithm, AstraPlan, Implementation};

/// A ring of ranks, and this rank's place in it.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    members: Members,
    pub size: u32,
    pub place: u32,
    /// Whether its group has only a part of the ranks.
    pub local: bool,
}

#[derive(Clone, Debug)]
enum Members {
    Regular { first: u32, stride: u32 },
    Listed(Arc<[u32]>),
}

impl Ring {
    /// The ring of `size` ranks, `stride` apart, that has this rank.
    fn regular(rank: u32, size: u32, stride: u32) -> Ring {
        let place = rank % (stride * size) / stride;
        Ring { members: Members::Regular { first: rank - place * stride, stride }, size, place, local: false }
    }

    /// The ring in the order of a list; `None` if this rank is not in it.
    pub fn listed(rank: u32, ranks: &Arc<[u32]>) -> Option<Ring> {
        let place = ranks.iter().rposition(|&one| one == rank)? as u32;
        Some(Ring { members: Members::Listed(ranks.clone()), size: ranks.len() as u32, place, local: true })
    }

    /// The rank in a place.
    pub fn rank(&self, place: u32) -> u32 {
        match &self.members {
            Members::Regular { first, stride } => first + place * stride,
            Members::Listed(ranks) => ranks[place as usize],
        }
    }

    /// The place that is some steps further on, or back.
    pub fn step(&self, place: u32, steps: u32, onwards: bool) -> u32 {
        let steps = steps % self.size;
        (place + if onwards { steps } else { self.size - steps }) % self.size
    }
}

/// A rank's neighbours in a binary tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub parent: Option<u32>,
    pub left: Option<u32>,
    pub right: Option<u32>,
}

impl Branch {
    /// The branch of the rank in `place`, of `size` ranks, which is a power of two. The rank at one end is the root, and the
    /// others form a balanced tree, in order. `rank` gives the rank in a place.
    fn new(place: u32, size: u32, root_is_last: bool, rank: impl Fn(u32) -> u32) -> Branch {
        let (root, shift) = if root_is_last { (size - 1, 1) } else { (0, 0) };
        // In the balanced tree places count from 1, so that the lowest set bit gives the height.
        let rank_of = |number: u32| if number == size { rank(root) } else { rank(number - shift) };
        if place == root {
            let child = Some(rank_of(size / 2));
            let (left, right) = if root_is_last { (child, None) } else { (None, child) };
            return Branch { parent: None, left, right };
        }
        let number = place + shift;
        let bit = number & number.wrapping_neg();
        let below = |number: u32| (bit > 1).then(|| rank_of(number));
        Branch {
            parent: Some(rank_of((number - bit) | bit << 1)),
            left: below(number - bit / 2),
            right: below(number + bit / 2),
        }
    }
}

/// A dimension as a kind of collective uses it.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Ring(Ring),
    /// A tree whose root is the last rank, and one whose root is the first; chunks alternate between them.
    Trees {
        ring: Ring,
        taken: u32,
    },
}

impl Shape {
    pub fn size(&self) -> u32 {
        match self {
            Shape::Ring(ring) | Shape::Trees { ring, .. } => ring.size,
        }
    }

    /// This rank's branch of the tree whose turn it is.
    pub fn next_branch(&mut self) -> Option<Branch> {
        let Shape::Trees { ring, taken } = self else { return None };
        *taken += 1;
        Some(Branch::new(ring.place, ring.size, *taken % 2 == 1, |place| ring.rank(place)))
    }
}

/// The dimensions of a list of algorithms, as a rank sees them.
///
/// # Errors
/// What is impossible in the list.
pub(super) fn shapes(plan: &AstraPlan, rank: u32, list: &[Implementation]) -> Result<Vec<Shape>, String> {
    if list.is_empty() || list.len() > plan.dims.len() {
        return Err(format!("expected 1 to {} algorithms, one a dimension", plan.dims.len()));
    }
    let mut stride = 1;
    let mut found = Vec::new();
    for (&size, implementation) in plan.dims.iter().zip(list) {
        let size = if implementation.of_all { plan.ranks() } else { size };
        let ring = Ring::regular(rank, size, if implementation.of_all { 1 } else { stride });
        if matches!(implementation.algorithm, Algorithm::HalvingDoubling | Algorithm::DoubleBinaryTree)
            && !size.is_power_of_two()
        {
            return Err(format!(
                "expected a power of two for halving-doubling and binary trees, found {size} ranks"
            ));
        }
        found.push(match implementation.algorithm {
            Algorithm::DoubleBinaryTree => Shape::Trees { ring, taken: 0 },
            _ => Shape::Ring(ring),
        });
        if implementation.of_all {
            break;
        }
        stride *= size;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_eight() {
        let branch = |place, last| Branch::new(place, 8, last, |place| place);
        let found: Vec<_> = (0..8).map(|place| branch(place, true)).collect();
        let parents: Vec<_> = found.iter().map(|branch| branch.parent).collect();
        assert_eq!(parents, [Some(1), Some(3), Some(1), Some(7), Some(5), Some(3), Some(5), None]);
        assert_eq!((found[3].left, found[3].right), (Some(1), Some(5)));
        assert_eq!((found[7].left, found[7].right), (Some(3), None));
        assert_eq!((found[0].left, found[0].right), (None, None));
        // The other way round: the first is the root.
        assert_eq!(branch(0, false), Branch { parent: None, left: None, right: Some(4) });
        assert_eq!(branch(4, false), Branch { parent: Some(0), left: Some(2), right: Some(6) });
        assert_eq!(branch(7, false).parent, Some(6));
    }

    #[test]
    fn a_tree_of_two() {
        let branch = |place, last| Branch::new(place, 2, last, |place| place);
        assert_eq!(branch(1, true), Branch { parent: None, left: Some(0), right: None });
        assert_eq!(branch(0, true), Branch { parent: Some(1), left: None, right: None });
        assert_eq!(branch(1, false), Branch { parent: Some(0), left: None, right: None });
    }

    #[test]
    fn rings_of_a_grid() {
        let ring = Ring::regular(6, 4, 4);
        let ranks: Vec<_> = (0..4).map(|place| ring.rank(place)).collect();
        assert_eq!((ranks, ring.place), (vec![2, 6, 10, 14], 1));
        assert_eq!(ring.step(1, 2, false), 3);
        let listed =
            Ring::listed(4, &vec![0, 2, 4, 1].into()).map(|ring| (ring.place, ring.step(2, 2, true)));
        assert_eq!(listed, Some((2, 0)));
    }
}

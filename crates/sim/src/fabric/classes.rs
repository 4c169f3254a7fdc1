//! How nodes put packets in classes.

use crate::plan::MAX_CODE_POINTS;

/// A node's classification: the class of each code point, by its index in the plan.
pub(crate) type ClassOf = [u8; MAX_CODE_POINTS];

/// A plan's classification as a table of fixed size.
pub(crate) fn class_table(plan: &[u8]) -> ClassOf {
    let mut table = [0; MAX_CODE_POINTS];
    table[..plan.len()].copy_from_slice(plan);
    table
}

/// A set of classes, a bit for each.
pub(crate) fn mask(classes: &[u8]) -> u8 {
    classes.iter().fold(0, |mask, class| mask | 1 << class)
}

/// A Linux bridge looks at no code point.
pub(crate) const ONE_CLASS: ClassOf = [0; MAX_CODE_POINTS];

/// The classifications of all nodes. Nodes are many and classifications few, so a node has a number.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    tables: Vec<ClassOf>,
    /// By node.
    number: Vec<u32>,
}

impl Classes {
    /// Adds the next node.
    pub fn add(&mut self, table: &ClassOf) {
        let known = self.tables.iter().position(|known| known == table);
        if known.is_none() {
            self.tables.push(*table);
        }
        self.number.push(known.unwrap_or(self.tables.len() - 1) as u32);
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.number.len()
    }

    /// A node's.
    pub fn of(&self, node: usize) -> &ClassOf {
        &self.tables[self.number[node] as usize]
    }
}

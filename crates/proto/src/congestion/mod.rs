//! Congestion control: how fast a flow may send. One file a controller.

pub mod dcqcn;

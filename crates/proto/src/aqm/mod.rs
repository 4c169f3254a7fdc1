//! Active queue management: what a queue decides about a packet. `ecn` is what switches do; the rest are the queueing
//! disciplines of Linux, with `qdisc` as what they have in common.

pub mod codel;
pub mod ecn;
pub mod fifo;
pub mod fq_codel;
mod lists;
pub mod qdisc;
pub mod red;
pub mod sfq;
pub mod skb;
pub mod tbf;

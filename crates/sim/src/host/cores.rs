//! What the cores of a host do: they take packets from the wire, are interrupted, poll, and serve what waits for them. The
//! rules are in `cpu.rs`.

use super::cpu::Batch;
use super::Tcp;
use crate::cores::{Purpose, Share, PURPOSES};
use crate::event::Event;
use crate::fabric::drops::DropReason;
use crate::fabric::Fabric;
use crate::gauge::Came;
use crate::nic::Nics;
use tailback_proto::units::Time;

impl Tcp {
    /// A packet for a core came over the wire.
    #[inline]
    pub fn core_receive(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32, index: u32) {
        let host = self.cpus.cores[core as usize].host as usize;
        let cpu = self.cpus.hosts[host].as_mut().expect("the core is its");
        let c = &mut self.cpus.cores[core as usize];
        let bytes = fabric.packets[index].frame_bytes();
        c.rx_packets += 1;
        c.rx_bytes += bytes as u64;
        if c.ring_packets == cpu.model.rx_ring {
            c.rx_out_of_buffer += 1;
            let port = nics[host].port as usize;
            fabric.drop_packet(port, index, DropReason::ReceiveRing);
            return;
        }
        c.ring.push(&mut fabric.packets, index);
        #[cfg(debug_assertions)]
        {
            fabric.packets[index].arrival = fabric.run.now;
        }
        c.ring_packets += 1;
        cpu.backlog.change(fabric.run.now, bytes as i64);
        if c.polling {
            return;
        }
        c.unannounced += 1;
        if c.unannounced >= cpu.model.interrupt_packets {
            self.interrupt(fabric, nics, core);
        } else if c.interrupt_at == Time::NEVER {
            c.interrupt_at = fabric.run.now + cpu.model.interrupt_delay;
            let at = c.interrupt_at;
            fabric.run.schedule(at, Event::Core(core));
        }
    }

    /// The NIC interrupts a core.
    fn interrupt(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32) {
        let c = &mut self.cpus.cores[core as usize];
        c.interrupt_at = Time::NEVER;
        c.unannounced = 0;
        c.interrupts += 1;
        c.polling = true;
        c.interrupted = true;
        if c.core.is_free() {
            self.run_core(fabric, nics, core);
        }
    }

    /// A batch of a core ends, or an interrupt that was held back is due.
    #[inline(never)] // what most runs never need stays out of the way of what they do
    pub fn on_core(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32) {
        let c = &mut self.cpus.cores[core as usize];
        c.core.end(fabric.run.now);
        if c.interrupt_at == fabric.run.now {
            self.interrupt(fabric, nics, core);
        } else if c.core.is_free() {
            self.run_core(fabric, nics, core);
        }
    }

    /// Work for a core in softirq context.
    pub fn raise_softirq(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32, work: u32) {
        let c = &mut self.cpus.cores[core as usize];
        c.softirqs.push_back(work);
        if c.core.is_free() {
            self.run_core(fabric, nics, core);
        }
    }

    /// A thread has something to do on a core, which has a batch under way.
    pub fn wake_thread(&mut self, core: u32, work: u32) {
        self.cpus.cores[core as usize].core.threads.push_back(work);
    }

    /// An idle core begins the next batch, if there is work.
    fn run_core(&mut self, fabric: &mut Fabric, nics: &mut Nics, core: u32) {
        let c = &mut self.cpus.cores[core as usize];
        if c.polling && c.ring_packets == 0 {
            c.polling = false;
        }
        let softirq = c.polling || !c.softirqs.is_empty();
        let thread = !c.core.threads.is_empty();
        let takes_softirq = c.core.softirqs_are_next(softirq, softirq && thread);
        if !softirq && !thread {
            return;
        }
        c.core.enter();
        let mut batch = Batch { core, start: fabric.run.now, cycles: [0.0; PURPOSES] };
        if !takes_softirq {
            let work = c.core.threads.pop_front().expect("a thread waits");
            self.run_thread(fabric, nics, work, &mut batch);
        } else if self.cpus.cores[core as usize].polling {
            self.poll(fabric, nics, &mut batch);
        } else {
            // What is raised in the meantime waits for the next batch.
            for _ in 0..self.cpus.cores[core as usize].softirqs.len() {
                let work = self.cpus.cores[core as usize].softirqs.pop_front().expect("counted");
                self.run_softirq(fabric, nics, work, &mut batch);
            }
        }
        let cpu = self.cpus.of(core);
        let (start, takes) = (batch.start, batch.times(&cpu.model));
        let c = &mut self.cpus.cores[core as usize].core;
        c.begin(start, (), if takes_softirq { Share::Softirqs } else { Share::Threads }, takes);
        if let Some(end) = c.leave() {
            fabric.run.schedule(end, Event::Core(core));
        }
    }

    /// Takes up to the budget of packets from a core's ring. Softirq work that waits besides goes along.
    fn poll(&mut self, fabric: &mut Fabric, nics: &mut Nics, batch: &mut Batch) {
        let core = batch.core;
        let host = self.cpus.cores[core as usize].host as usize;
        let cpu = self.cpus.hosts[host].as_mut().expect("the core is its");
        let c = &mut self.cpus.cores[core as usize];
        if std::mem::take(&mut c.interrupted) {
            batch.spend(Purpose::Irq, cpu.model.cycles_per_interrupt);
        }
        let mut polled = std::mem::take(&mut self.cpus.polled);
        let mut bytes = 0;
        while polled.len() < cpu.model.budget as usize {
            let Some(index) = c.ring.pop(&fabric.packets) else { break };
            let packet = &fabric.packets[index];
            bytes += packet.frame_bytes() as i64;
            cpu.backlog.left(packet.frame_bytes() as u64, Came::at(packet.arrival), fabric.run.now);
            polled.push(index);
        }
        c.ring_packets -= polled.len() as u32;
        c.polled_packets += polled.len() as u64;
        cpu.backlog.change(fabric.run.now, -bytes);
        batch.spend(Purpose::Soft, polled.len() as f64 * cpu.model.cycles_per_packet);
        self.receive_polled(fabric, nics, &polled, batch);
        polled.clear();
        self.cpus.polled = polled;
        for _ in 0..self.cpus.cores[core as usize].softirqs.len() {
            let work = self.cpus.cores[core as usize].softirqs.pop_front().expect("counted");
            self.run_softirq(fabric, nics, work, batch);
        }
    }
}

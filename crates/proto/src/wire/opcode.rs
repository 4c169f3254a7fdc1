//! Opcodes of the BTH (IBTA 9.2, "OpCode field"): the service in the upper three bits, the operation in the lower five.

/// An opcode: those of the reliable connection, and that of a CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opcode {
    SendFirst,
    SendMiddle,
    SendLast,
    SendLastWithImmediate,
    SendOnly,
    SendOnlyWithImmediate,
    WriteFirst,
    WriteMiddle,
    WriteLast,
    WriteLastWithImmediate,
    WriteOnly,
    WriteOnlyWithImmediate,
    ReadRequest,
    ReadResponseFirst,
    ReadResponseMiddle,
    ReadResponseLast,
    ReadResponseOnly,
    Acknowledge,
    AtomicAcknowledge,
    CompareSwap,
    FetchAdd,
    /// Congestion notification packet (annex A17, "RoCEv2 congestion management").
    Cnp,
    /// Any other: an unreliable or datagram service, an invalidation, a vendor's own.
    Other(u8),
}

/// Which extended headers lie between a BTH and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionKind {
    None,
    Reth,
    RethImmDt,
    ImmDt,
    Aeth,
    AtomicAck,
    AtomicEth,
    CnpReserved,
}

impl Opcode {
    /// Those of the reliable connection, in the order of their numbers from 0 on.
    pub const RELIABLE_CONNECTION: [Opcode; 21] = [
        Opcode::SendFirst,
        Opcode::SendMiddle,
        Opcode::SendLast,
        Opcode::SendLastWithImmediate,
        Opcode::SendOnly,
        Opcode::SendOnlyWithImmediate,
        Opcode::WriteFirst,
        Opcode::WriteMiddle,
        Opcode::WriteLast,
        Opcode::WriteLastWithImmediate,
        Opcode::WriteOnly,
        Opcode::WriteOnlyWithImmediate,
        Opcode::ReadRequest,
        Opcode::ReadResponseFirst,
        Opcode::ReadResponseMiddle,
        Opcode::ReadResponseLast,
        Opcode::ReadResponseOnly,
        Opcode::Acknowledge,
        Opcode::AtomicAcknowledge,
        Opcode::CompareSwap,
        Opcode::FetchAdd,
    ];
    const CNP: u8 = 0x81;

    /// The extended headers that follow the BTH (IBTA 9.2, table of opcodes).
    pub const fn extension(self) -> ExtensionKind {
        use Opcode::*;
        match self {
            WriteFirst | WriteOnly | ReadRequest => ExtensionKind::Reth,
            WriteOnlyWithImmediate => ExtensionKind::RethImmDt,
            SendLastWithImmediate | SendOnlyWithImmediate | WriteLastWithImmediate => ExtensionKind::ImmDt,
            ReadResponseFirst | ReadResponseLast | ReadResponseOnly | Acknowledge => ExtensionKind::Aeth,
            AtomicAcknowledge => ExtensionKind::AtomicAck,
            CompareSwap | FetchAdd => ExtensionKind::AtomicEth,
            Cnp => ExtensionKind::CnpReserved,
            SendFirst | SendMiddle | SendLast | SendOnly | WriteMiddle | WriteLast | ReadResponseMiddle
            | Other(_) => ExtensionKind::None,
        }
    }

    /// Whether it is a request, which takes a PSN of its requester.
    pub fn is_request(self) -> bool {
        self <= Opcode::ReadRequest || matches!(self, Opcode::CompareSwap | Opcode::FetchAdd)
    }
}

impl From<u8> for Opcode {
    fn from(number: u8) -> Opcode {
        match Opcode::RELIABLE_CONNECTION.get(number as usize) {
            Some(&opcode) => opcode,
            None if number == Opcode::CNP => Opcode::Cnp,
            None => Opcode::Other(number),
        }
    }
}

impl From<Opcode> for u8 {
    fn from(opcode: Opcode) -> u8 {
        match opcode {
            Opcode::Cnp => Opcode::CNP,
            Opcode::Other(number) => number,
            known => Opcode::RELIABLE_CONNECTION.iter().position(|&o| o == known).expect("listed") as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_an_opcode_and_comes_back() {
        for number in 0..=u8::MAX {
            assert_eq!(u8::from(Opcode::from(number)), number);
        }
    }
}

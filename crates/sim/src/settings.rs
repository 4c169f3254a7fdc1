//! The engine's settings as declared, for the front, which makes its fields, their schema and their reference from them.

use tailback_proto::aqm::codel::FqCodelParameters;
use tailback_proto::aqm::codel::{CodelParameters, CodelQueueParameters};
use tailback_proto::aqm::qdisc::TbfParameters;
use tailback_proto::aqm::qdisc::{BfifoParameters, PfifoParameters};
use tailback_proto::aqm::red::{EcnParameters, RedArguments};
use tailback_proto::aqm::sfq::SfqParameters;
use tailback_proto::congestion::host::HostCcParameters;
use tailback_proto::congestion::rhcc::ReceiverParameters;
use tailback_proto::flow_control::pfc::WatchdogParameters;
use tailback_proto::flow_control::pfc::{HeadroomParameters, PauseParameters, PfcParameters};
use tailback_proto::parameters::Section;
use tailback_proto::transport::rc::TransportParameters;
use tailback_proto::transport::tcp::TcpSettings;

use crate::fabric::settings::{
    FailurePlan, LinkPlan, PoolParameters, SharedParameters, SwitchModelPlan, TrimmingPlan,
};
use crate::host::settings::{
    CpuParameters, DdioParameters, GpuParameters, MemoryParameters, PcieParameters, ReadsParameters,
    ReceiveBufferParameters, ReceiveThresholdParameters, StallsParameters,
};
use crate::linux::settings::{
    BqlParameters, BridgeCorePlan, BridgeCosts, BridgeParameters, BridgePortPlan, CoalescingParameters,
    ConsumerParameters, DatagramsPlan, FramesPlan, PingsPlan, VethSettings,
};
use crate::nic::settings::NicPlan;
use crate::plan::RunParameters;
use crate::record::RecordParameters;
use crate::workload::settings::{MemoryLoadPlan, TcpConnectionPlan, WriterPlan};

/// All sections.
pub fn sections() -> Vec<Section> {
    vec![
        Section::of::<RunParameters>("Run"),
        Section::of::<BridgeCorePlan>("BridgeCore"),
        Section::of::<BridgePortPlan>("BridgePort"),
        Section::of::<LinkPlan>("Link"),
        Section::of::<FailurePlan>("Failure"),
        Section::of::<NicPlan>("Nic"),
        Section::of::<SwitchModelPlan>("Switch"),
        Section::by_rate::<EcnParameters>("Thresholds"),
        Section::of::<PfcParameters>("Pfc"),
        Section::of::<PauseParameters>("Pause"),
        Section::of::<HeadroomParameters>("Headroom"),
        Section::of::<SharedParameters>("Shared"),
        Section::of::<PoolParameters>("Pools"),
        Section::of::<WatchdogParameters>("Watchdog"),
        Section::of::<TrimmingPlan>("Trimming"),
        Section::of::<RecordParameters>("Record"),
        Section::of::<ReceiverParameters>("RhccReceiver"),
        Section::of::<HostCcParameters>("HostCc"),
        Section::of::<PcieParameters>("HostPath"),
        Section::of::<ReceiveBufferParameters>("ReceiveBuffer"),
        Section::of::<ReceiveThresholdParameters>("ReceiveThresholds"),
        Section::of::<MemoryParameters>("Memory"),
        Section::of::<GpuParameters>("Gpu"),
        Section::of::<StallsParameters>("Stalls"),
        Section::of::<TransportParameters>("Transport"),
        Section::of::<TcpSettings>("Tcp"),
        Section::of::<CpuParameters>("Cpu"),
        Section::of::<DdioParameters>("Ddio"),
        Section::of::<ReadsParameters>("Reads"),
        Section::of::<CoalescingParameters>("Coalescing"),
        Section::of::<BridgeCosts>("Costs"),
        Section::of::<BqlParameters>("Bql"),
        Section::of::<BridgeParameters>("Bridge"),
        Section::of::<VethSettings>("Veth"),
        Section::of::<ConsumerParameters>("Consumer"),
        Section::of::<WriterPlan>("Write"),
        Section::of::<TcpConnectionPlan>("TcpConnections"),
        Section::of::<MemoryLoadPlan>("MemoryLoad"),
        Section::of::<DatagramsPlan>("Datagrams"),
        Section::of::<PingsPlan>("Pings"),
        Section::of::<FramesPlan>("Frames"),
        Section::of_kind::<PfifoParameters>("Pfifo", "pfifo"),
        Section::of_kind::<BfifoParameters>("Bfifo", "bfifo"),
        Section::of_kind::<RedArguments>("Red", "red"),
        Section::of::<CodelParameters>("CodelDelays"),
        Section::of_kind::<CodelQueueParameters>("Codel", "codel"),
        Section::of_kind::<FqCodelParameters>("FqCodel", "fq_codel"),
        Section::of_kind::<SfqParameters>("Sfq", "sfq"),
        Section::of_kind::<TbfParameters>("Tbf", "tbf"),
    ]
}

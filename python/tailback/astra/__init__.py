"""ASTRA-sim's own inputs for its ns-3 backend (Chakra traces, system, topology, network), run as they are."""

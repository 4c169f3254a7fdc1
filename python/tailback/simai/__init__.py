"""SimAI's inputs (workload, topology, SimAI.conf), run as they are."""

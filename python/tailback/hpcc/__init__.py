"""The files of the HPCC ns-3 simulator (alibaba-edu/High-Precision-Congestion-Control), run as they are."""

"""P8 and P9: times, clocks and power."""

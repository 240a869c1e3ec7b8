"""The integer program for HiGHS."""

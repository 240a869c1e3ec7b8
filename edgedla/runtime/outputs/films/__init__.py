"""Videos that outputs write: clips of events, their encoding, films in segments, and which of them are kept."""

"""The vocabulary: statuses, facts, ports and pure decisions; no I/O and no clock."""

"""What leaves the house: tables, traces, JSON and arrays; the only room that writes files."""

"""What tests, benchmarks and the demo share: servers to start and kill, parts to find. Standard library only."""

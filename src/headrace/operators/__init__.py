"""What is done with events by key and over time: pure logic, tested without an engine, run by one."""

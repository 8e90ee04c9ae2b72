"""One conversation of the agents: what they are asked, what they answer, what the tester reports, what it earns."""

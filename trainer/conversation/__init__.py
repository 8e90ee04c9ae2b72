"""One conversation of the agents: what they are told, what they answer, what the tester says, what it earns."""

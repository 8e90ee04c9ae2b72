"""The straight line from a submission to its verdict, and the referees that judge what was compiled."""

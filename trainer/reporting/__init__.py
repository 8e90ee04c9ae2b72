"""What a run tells: measures, curves, transcripts."""

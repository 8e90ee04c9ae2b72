"""The stages of the pipeline: functions of frozen values that do not import the pipeline."""

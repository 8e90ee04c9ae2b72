"""The grader as a service: a submission comes over HTTP, is queued, judged by a worker, and its verdict is kept."""

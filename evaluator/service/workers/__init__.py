"""Worker processes: embedded in a server or driven by Celery, and what watches over them."""

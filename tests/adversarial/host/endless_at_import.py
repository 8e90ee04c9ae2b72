# problem: relu
# attack: a build that never ends
# expect: timeout
# because: its time is up
# run_timeout_s: 4
while True:
    pass

# problem: relu
# attack: an exit while the text is carried out
# expect: runtime_error
# because: it gives no answer
import os

os._exit(0)

"""Why a public solution was not judged."""


def cause_of(row):
    return ("judged", "") if row["status"] in ("passed", "incorrect") else ("?", row["message"][:80])

"""Operations: what a broker tells the people who run it, as numbers, a status or sentences.

What is counted, how it is shown, and what is logged lives here; to count something must be cheap
enough for every message. Nothing here changes anything in a broker.
"""
